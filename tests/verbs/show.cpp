/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* What `rdma resource show` tells of queue pairs, queues and regions is the truth. */
#include "../wire/stream.hpp"
#include "cases.hpp"
#include "device.hpp"

#include <arpa/inet.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <format>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

using namespace rdma;

namespace
{

using Values = std::map<std::string, std::string>;

/* What a command prints. */
std::string output_of(const std::string &command, Where where = Where::current())
{
	FILE *pipe = popen(("exec bash -o pipefail -c '" + command + "'").c_str(), "r");
	std::string text;
	std::array<char, 4096> part;

	require(pipe != nullptr, "a shell", where);
	while (std::size_t n = std::fread(part.data(), 1, part.size(), pipe))
		text.append(part.data(), n);
	require(pclose(pipe) == 0, command, where);
	return text;
}

/* The objects of this process, as `rdma resource show` tells of them, by the value of @key. */
std::map<std::string, Values> shown(const ibv_context *context, const std::string &kind,
				    const std::string &key)
{
	std::istringstream lines(output_of(
		std::format("rdma -dd -j resource show {} | jq -r \".[] "
			    "| select(.ifname == \\\"{}\\\" and .pid == {}) | . as \\$o "
			    "| to_entries[] | [\\$o.{}, .key, (.value | tostring)] | @tsv\"",
			    kind, ibv_get_device_name(context->device), getpid(), key)));
	std::map<std::string, Values> objects;
	std::string id, name, value;

	while (std::getline(lines, id, '\t') && std::getline(lines, name, '\t') &&
	       std::getline(lines, value))
		objects[id][name] = value;
	return objects;
}

Values shown(const End &end, Where where = Where::current())
{
	auto qps = shown(end.qp()->context, "qp", "lqpn");
	auto found = qps.find(std::to_string(end.qp()->qp_num));

	require(found != qps.end(), "the queue pair is shown", where);
	return found->second;
}

void expect(Values &values, const std::string &name, const std::string &value,
	    Where where = Where::current())
{
	require(values["drv_" + name] == value,
		std::format("{} is \"{}\" instead of \"{}\"", name, values["drv_" + name], value),
		where);
}

/* An address and a port as the kernel writes them. */
std::string text_of(const sockaddr *address)
{
	std::array<char, INET6_ADDRSTRLEN> text;

	if (address->sa_family == AF_INET) {
		auto *in = reinterpret_cast<const sockaddr_in *>(address);

		inet_ntop(AF_INET, &in->sin_addr, text.data(), text.size());
		return std::format("{}:{}", text.data(), ntohs(in->sin_port));
	}
	auto *in6 = reinterpret_cast<const sockaddr_in6 *>(address);

	inet_ntop(AF_INET6, &in6->sin6_addr, text.data(), text.size());
	return std::format("[{}]:{}", text.data(), ntohs(in6->sin6_port));
}

std::string setting(const End &end, const std::string &name)
{
	std::string value;

	std::ifstream(setting_file(end.qp()->context->device, name)) >> value;
	return value;
}

bool within_host(const End &end)
{
	return setting(end, "loopback") == "1";
}

/* The rdma_cm chooses a port that TCP may not have any more. Then the peer sees another one. */
void expect_connected(Values &values, End &end, End &other, int ird, int ord)
{
	require(values["state"] == "RTS", "the state is " + values["state"]);
	expect(values, "local", text_of(rdma_get_peer_addr(other.id())));
	expect(values, "peer", text_of(rdma_get_peer_addr(end.id())));
	expect(values, "carrier", within_host(end) ? "host" : "tcp");
	expect(values, "mpa_revision", "2");
	expect(values, "crc", setting(end, "crc"));
	expect(values, "tx_markers", "0");
	expect(values, "tx_large_fpdus", setting(end, "large_fpdus"));
	expect(values, "ird", std::to_string(ird));
	expect(values, "ord", std::to_string(ord));
	require(values.find("drv_error") == values.end(), "there is no error");
}

/* The responder grants as many Reads as the initiator wants, and wants fewer itself. */
void connections(const std::string &address)
{
	constexpr std::uint8_t pairs_max = 50; /* a hundred ends */
	std::vector<std::unique_ptr<Pair>> pairs;

	for (std::uint8_t i = 1; i <= pairs_max; i++) {
		const std::uint8_t a = i + 1, b = i;

		pairs.push_back(std::make_unique<Pair>(address, QpOptions{ .ord = a },
						       QpOptions{ .ord = b }));
	}
	auto qps = shown(pairs[0]->a().qp()->context, "qp", "lqpn");
	require(qps.size() == 2 * pairs_max, std::format("{} queue pairs are shown", qps.size()));
	for (int i = 1; i <= pairs_max; i++) {
		End &a = pairs[i - 1]->a(), &b = pairs[i - 1]->b();
		ibv_qp_attr a_attr, b_attr;
		ibv_qp_init_attr init;
		constexpr int depths = IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC;

		require(!ibv_query_qp(a.qp(), &a_attr, depths, &init), "ibv_query_qp");
		require(!ibv_query_qp(b.qp(), &b_attr, depths, &init), "ibv_query_qp");
		require(a_attr.max_rd_atomic == i + 1, "the initiator's depth");
		expect_connected(qps.at(std::to_string(a.qp()->qp_num)), a, b,
				 a_attr.max_dest_rd_atomic, i + 1);
		expect_connected(qps.at(std::to_string(b.qp()->qp_num)), b, a,
				 b_attr.max_dest_rd_atomic, b_attr.max_rd_atomic);
	}
}

void requests(const std::string &address)
{
	Pair pair(address);
	Buffer from(pair.a().pd(), 64), into(pair.b().pd(), 64);
	auto a = shown(pair.a()), b = shown(pair.b());

	expect(a, "sends_posted", "0");
	expect(a, "sends_in_flight", "0");
	expect(a, "reads_in_flight", "0");
	expect(b, "receives_posted", "0");
	for (std::uint64_t i = 0; i < 7; i++)
		pair.b().receive(into.sge(0, 64), i);
	b = shown(pair.b());
	expect(b, "receives_posted", "7");
	pair.a().send(from.sge(0, 64));
	expect_completion(pair.a().send_cq(), IBV_WC_SUCCESS, 0);
	expect_completion(pair.b().recv_cq(), IBV_WC_SUCCESS, 0);
	b = shown(pair.b());
	expect(b, "receives_posted", "6");
	a = shown(pair.a());
	expect(a, "sends_in_flight", "0");
}

/*
 * A Send waits for a receive request, and the Read behind it waits, too. Over TCP the Send is done
 * when it is sent, and the Read is in flight. Within the host the Send itself is.
 */
void waiting(const std::string &address)
{
	Pair probe(address);
	wire::Setting wait(setting_file(probe.b().qp()->context->device, "receive_wait_ms"),
			   "60000");
	Pair pair(address);
	Buffer from(pair.a().pd(), 64), into(pair.b().pd(), 64);
	const bool tcp = !within_host(pair.a());

	pair.a().send(from.sge(0, 64), 0);
	pair.a().read(from.sge(0, 64), into.address(), into.mr()->rkey, 1);
	await("the requests are in flight", [&] {
		auto a = shown(pair.a());

		return a["drv_sends_in_flight"] == "1" &&
		       a["drv_sends_posted"] == (tcp ? "0" : "1") &&
		       a["drv_reads_in_flight"] == (tcp ? "1" : "0");
	});
	pair.b().receive(into.sge(0, 64));
	expect_completion(pair.a().send_cq(), IBV_WC_SUCCESS, 0);
	expect_completion(pair.a().send_cq(), IBV_WC_SUCCESS, 1);
	auto a = shown(pair.a());
	expect(a, "sends_posted", "0");
	expect(a, "sends_in_flight", "0");
	expect(a, "reads_in_flight", "0");
}

std::uint64_t number(Values &values, const std::string &name)
{
	return std::stoull(values.at("drv_" + name));
}

void traffic(const std::string &address)
{
	constexpr std::uint32_t writes = 10, length = 5000;
	Pair pair(address);
	Buffer from(pair.a().pd(), length), into(pair.b().pd(), length), back(pair.a().pd(), 8);

	for (std::uint32_t i = 0; i < writes; i++) {
		pair.a().write(from.sge(0, length), into.address(), into.mr()->rkey, i);
		expect_completion(pair.a().send_cq(), IBV_WC_SUCCESS, i);
	}
	/* Its answer says that the Writes have arrived. */
	pair.a().read(back.sge(0, 8), into.address(), into.mr()->rkey, writes);
	expect_completion(pair.a().send_cq(), IBV_WC_SUCCESS, writes);
	auto a = shown(pair.a()), b = shown(pair.b());
	if (a["drv_carrier"] == "host") {
		require(number(a, "tx_loop") > writes, "segments within the host are counted");
		require(number(a, "tx_bytes") == 0, "TCP gets none of them");
		return;
	}
	require(number(a, "tx_bytes") > writes * length, "the octets sent are counted");
	/* What an end has done is counted a moment later. */
	await("both ends count the same", [&] {
		a = shown(pair.a());
		b = shown(pair.b());
		return number(a, "tx_bytes") == number(b, "rx_bytes") &&
		       number(a, "tx_fpdus") == number(b, "rx_fpdus") &&
		       number(b, "tx_bytes") == number(a, "rx_bytes") &&
		       number(b, "tx_fpdus") == number(a, "rx_fpdus");
	});
}

void reasons(const std::string &address)
{
	Pair pair(address);
	Buffer into(pair.a().pd(), 64), source(pair.b().pd(), 64);

	pair.a().read(into.sge(0, 64), source.address() + 1, source.mr()->rkey);
	pair.expect_disconnect();
	auto a = shown(pair.a()), b = shown(pair.b());
	require(a["state"] == "ERR" && b["state"] == "ERR", "both ends are in error");
	expect(b, "error", "read_bad_bounds");
	expect(a, "peer_error_layer", "0");
	expect(a, "peer_error_type", "1");
	expect(a, "peer_error_code", "1");
	for (Values *values : { &a, &b }) {
		require(values->find("drv_peer") == values->end(), "no connection is shown");
		require(values->find("drv_reads_in_flight") == values->end(), "nor are Reads");
	}
	pair.b().move_to(IBV_QPS_RESET);
	b = shown(pair.b());
	require(b.find("drv_error") == b.end(), "after a reset there is no error");
}

/* The consumer itself ends the stream. */
void own_reason(const std::string &address)
{
	Pair pair(address);

	pair.b().move_to(IBV_QPS_ERR);
	pair.expect_disconnect();
	auto a = shown(pair.a()), b = shown(pair.b());
	expect(b, "error", "local_abort");
	require(a.find("drv_peer_error_layer") != a.end(), "the peer has a Terminate");
}

/* How many of the regions of this process stand for each kind of memory. */
std::map<std::string, int> kinds_of_memory(const ibv_context *context)
{
	std::map<std::string, int> kinds;

	for (auto &[number, values] : shown(context, "mr", "mrn"))
		kinds[values["drv_memory"]] += values["drv_valid"] == "1";
	return kinds;
}

void regions(const std::string &address)
{
	Pair pair(address);
	ibv_pd *pd = pair.a().pd();
	ibv_context *context = pd->context;
	ibv_alloc_dm_attr attr = { 4096, 0, 0 };
	Buffer pinned(pd, 4096);
	Mr on_demand(ibv_reg_mr(pd, pinned.bytes().data(), 4096, IBV_ACCESS_ON_DEMAND));
	const bool has_none = !on_demand && errno == EOPNOTSUPP;
	Dm dm(ibv_alloc_dm(context, &attr));
	require(dm != nullptr, "device memory");
	Mr device(ibv_reg_dm_mr(pd, dm.get(), 0, 4096, IBV_ACCESS_ZERO_BASED));

	require(device != nullptr, "a region of device memory");
	auto kinds = kinds_of_memory(context);
	require(kinds["pinned"] == 1, "pinned memory is shown");
	require(kinds["device"] == 1, "device memory is shown");
	require(kinds["on_demand"] == (has_none ? 0 : 1), "memory on demand is shown");
	device.reset();
	require(kinds_of_memory(context)["device"] == 0, "a region that is gone is not shown");
}

void queues(const std::string &address)
{
	Pair probe(address);
	ibv_pd *pd = probe.b().pd();
	ibv_srq_init_attr attr = { nullptr, { 32, 1, 0 } };
	Srq srq(ibv_create_srq(pd, &attr));
	require(srq != nullptr, "a shared receive queue");
	Cq cq(ibv_create_cq(pd->context, 128, nullptr, nullptr, 0));
	require(cq != nullptr, "a completion queue");
	Pair pair(address, QpOptions{}, QpOptions{ .srq = srq.get(), .cq = cq.get(), .pd = pd });
	Buffer from(pair.a().pd(), 64), into(pd, 64);
	ibv_sge sge = into.sge(0, 64);
	ibv_recv_wr wr = { 0, nullptr, &sge, 1 }, *bad;

	for (int i = 0; i < 3; i++) {
		require(!ibv_post_srq_recv(srq.get(), &wr, &bad), "a receive");
		pair.a().send(from.sge(0, 64), 0);
		expect_completion(pair.a().send_cq(), IBV_WC_SUCCESS, 0);
		expect_completion(cq.get(), IBV_WC_SUCCESS, 0);
	}
	auto srqs = shown(pd->context, "srq", "srqn");
	require(srqs.size() == 1, "one shared receive queue is shown");
	expect(srqs.begin()->second, "taken", "3");
	expect(srqs.begin()->second, "max_wr", "32");
	expect(srqs.begin()->second, "limit", "0");
	expect(srqs.begin()->second, "starved", "0");
	int found = 0;
	for (auto &[number, values] : shown(pd->context, "cq", "cqn"))
		found += values["drv_completions"] == "3" && values["drv_overflowed"] == "0";
	/* That of the sender has three as well. */
	require(found == 2, "both queues with three completions are shown");
}

/* Makes, registers again and destroys objects, until it is told to stop. */
void come_and_go(const std::string &address, const std::atomic<bool> &stop)
{
	while (!stop) {
		Pair pair(address);
		Buffer from(pair.a().pd(), 64), into(pair.b().pd(), 64);

		pair.a().write(from.sge(0, 64), into.address(), into.mr()->rkey);
		require(!ibv_rereg_mr(into.mr(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr,
				      from.bytes().data(), 64, 0),
			"ibv_rereg_mr");
	}
}

/* Each answer is whole, whatever happens to the objects meanwhile. */
void while_they_go(const std::string &address)
{
	std::atomic<bool> stop = false;
	std::exception_ptr failure;
	std::thread maker([&] {
		try {
			come_and_go(address, stop);
		} catch (...) {
			failure = std::current_exception();
		}
	});
	std::size_t seen = 0;

	try {
		for (int i = 0; i < 10; i++)
			seen += output_of("for kind in qp cq mr srq; do rdma -dd -j resource show "
					  "$kind | jq -c .[] || exit 1; done")
					.size();
	} catch (...) {
		failure = std::current_exception();
	}
	stop = true;
	maker.join();
	if (failure)
		std::rethrow_exception(failure);
	require(seen > 0, "objects were shown");
}

constexpr cases::Case all[] = {
	{ "each of a hundred ends is shown as it is", connections },
	{ "requests are shown while they are posted", requests },
	{ "requests that wait are shown", waiting },
	{ "what an end sent and received is shown", traffic },
	{ "the reason is shown why a stream has ended", reasons },
	{ "the reason is shown if the consumer ends it", own_reason },
	{ "regions are shown with what they stand for", regions },
	{ "queues are shown with what they were given", queues },
	{ "objects are shown while others come and go", while_they_go },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
