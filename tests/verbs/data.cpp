/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Every byte arrives at its place, for all sizes, numbers of pieces and kinds of request. */
#include "cases.hpp"
#include "rdma.hpp"

#include <cerrno>
#include <chrono>
#include <format>
#include <random>

using namespace rdma;
using namespace std::chrono_literals;
using std::chrono::steady_clock;

namespace
{

/* Sizes around what fits into a segment at the usual MTUs, and around 64 KiB. */
std::vector<std::uint32_t> interesting_sizes()
{
	std::vector<std::uint32_t> sizes = { 0, 1, 2, 3, 4, 5, 63, 64, 65, 4095, 4096, 4097 };

	for (std::uint32_t centre : { 512u, 1448u, 2896u, 8948u, 65483u, 65536u })
		for (std::uint32_t size = centre - 40; size <= centre + 8; size += 3)
			sizes.push_back(size);
	sizes.push_back(1 << 20);
	return sizes;
}

constexpr std::size_t room = (1 << 20) + 64;

struct Setting {
	explicit Setting(const std::string &address, const QpOptions &options = {})
		: pair(address, options), a(pair.a()), b(pair.b()), from(a.pd(), room),
		  to(b.pd(), room)
	{
	}

	std::uint32_t rkey() const { return to.mr()->rkey; }

	/* The data has arrived at this place, and the bytes around it have not changed. */
	void expect_arrived(std::size_t offset, std::size_t size, Where where = Where::current())
	{
		require(to.holds(seed, offset, size), std::format("{} bytes arrived", size), where);
		for (std::size_t place : { offset - 1, offset + size })
			if (place < room)
				require(to.bytes()[place] == 0,
					std::format("byte {} is untouched", place), where);
		std::ranges::fill(to.bytes().subspan(offset, size), 0);
		from.fill(++seed);
	}

	std::uint32_t seed = 0;
	Pair pair;
	End &a;
	End &b;
	Buffer from;
	Buffer to;
};

void writes_of_all_sizes(const std::string &address)
{
	Setting setting(address);

	setting.from.fill(setting.seed);
	for (std::uint32_t size : interesting_sizes()) {
		setting.a.write(setting.from.sge(7, size), setting.to.address() + 7, setting.rkey(),
				size);
		setting.a.read(setting.from.sge(0, 1), setting.to.address(), setting.rkey(), 1);
		expect_completion(setting.a.send_cq(), IBV_WC_SUCCESS, size);
		expect_completion(setting.a.send_cq(), IBV_WC_SUCCESS, 1);
		setting.expect_arrived(7, size);
	}
}

void reads_of_all_sizes(const std::string &address)
{
	Setting setting(address);

	setting.from.fill(setting.seed);
	for (std::uint32_t size : interesting_sizes()) {
		setting.b.read(setting.to.sge(5, size), setting.from.address() + 5,
			       setting.from.mr()->rkey, size);

		ibv_wc wc = expect_completion(setting.b.send_cq(), IBV_WC_SUCCESS, size);

		require(wc.opcode == IBV_WC_RDMA_READ && wc.byte_len == size,
			"opcode and length are right");
		setting.expect_arrived(5, size);
	}
}

void sends_of_all_sizes(const std::string &address)
{
	Setting setting(address);

	setting.from.fill(setting.seed);
	for (std::uint32_t size : interesting_sizes()) {
		setting.b.receive(setting.to.sge(3, size), size);
		setting.a.send(setting.from.sge(3, size), size);
		expect_completion(setting.a.send_cq(), IBV_WC_SUCCESS, size);

		ibv_wc wc = expect_completion(setting.b.recv_cq(), IBV_WC_SUCCESS, size);

		require(wc.opcode == IBV_WC_RECV && wc.byte_len == size,
			"opcode and length are right");
		setting.expect_arrived(3, size);
	}
}

/* Splits a range into SGEs of random length. The second is empty, unless it is the last. */
std::vector<ibv_sge> pieces(const Buffer &buffer, std::uint32_t size, std::uint32_t count,
			    std::mt19937 &random)
{
	std::vector<ibv_sge> sges;
	std::uint32_t offset = 0;

	for (std::uint32_t i = 0; i + 1 < count; i++) {
		std::uint32_t length =
			i == 1 ? 0 : random() % (2 * (size - offset) / (count - i) + 1);

		length = std::min(length, size - offset);
		sges.push_back(buffer.sge(offset, length));
		offset += length;
	}
	sges.push_back(buffer.sge(offset, size - offset));
	return sges;
}

void in_sixteen_pieces(const std::string &address)
{
	Setting setting(address, { .send_sge = 16, .recv_sge = 16 });
	std::mt19937 random(4711);

	setting.from.fill(setting.seed);
	for (std::uint32_t size : interesting_sizes()) {
		auto gather = pieces(setting.from, size, 2 + random() % 15, random);
		auto scatter = pieces(setting.to, size, 2 + random() % 15, random);
		ibv_recv_wr receive = { size, nullptr, scatter.data(),
					static_cast<int>(scatter.size()) };
		ibv_send_wr send = {};

		send.wr_id = size;
		send.sg_list = gather.data();
		send.num_sge = static_cast<int>(gather.size());
		send.opcode = IBV_WR_SEND;
		send.send_flags = IBV_SEND_SIGNALED;
		require(!setting.b.post(receive) && !setting.a.post(send), "16 SGEs are taken");
		expect_completion(setting.a.send_cq(), IBV_WC_SUCCESS, size);
		expect_completion(setting.b.recv_cq(), IBV_WC_SUCCESS, size);
		setting.expect_arrived(0, size);
	}
}

/* Inline data is copied when it is posted: the buffer may change at once, and needs no lkey. */
void inline_of_all_sizes(const std::string &address)
{
	Setting setting(address, { .inline_data = 512 });
	std::vector<std::uint8_t> own(512);

	require(setting.a.cap().max_inline_data >= 512, "512 bytes fit inline");
	setting.from.fill(setting.seed);
	for (std::uint32_t size = 0; size <= 512; size++) {
		ibv_sge sges[] = { { reinterpret_cast<std::uint64_t>(own.data()), size / 3, 0 },
				   { reinterpret_cast<std::uint64_t>(own.data()) + size / 3,
				     size - size / 3, 0 } };
		ibv_send_wr wr = {};

		std::ranges::copy(setting.from.bytes().first(size), own.begin());
		wr.wr_id = size;
		wr.sg_list = sges;
		wr.num_sge = 2;
		wr.opcode = IBV_WR_SEND;
		wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
		setting.b.receive(setting.to.sge(0, 512), size);
		require(!setting.a.post(wr), "the request is taken");
		std::ranges::fill(own, 0xee);
		expect_completion(setting.a.send_cq(), IBV_WC_SUCCESS, size);

		ibv_wc wc = expect_completion(setting.b.recv_cq(), IBV_WC_SUCCESS, size);

		require(wc.byte_len == size, "the length is right");
		setting.expect_arrived(0, size);
	}
}

/* A fenced request waits for the reads before it, so it can send the data that they read. */
void fence(const std::string &address)
{
	constexpr std::uint32_t size = 1 << 20;
	Setting setting(address);
	Buffer source(setting.b.pd(), size), relay(setting.a.pd(), size);

	for (std::uint32_t round = 1; round <= 5; round++) {
		ibv_sge sge = relay.sge(0, size);
		ibv_send_wr wr = {};

		source.fill(round);
		setting.b.receive(setting.to.sge(0, size), round);
		setting.a.read(sge, source.address(), source.mr()->rkey, 100 + round);
		wr.wr_id = round;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		wr.opcode = IBV_WR_SEND;
		wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
		require(!setting.a.post(wr), "the request is taken");
		expect_completion(setting.a.send_cq(), IBV_WC_SUCCESS, 100 + round);
		expect_completion(setting.a.send_cq(), IBV_WC_SUCCESS, round);
		expect_completion(setting.b.recv_cq(), IBV_WC_SUCCESS, round);
		require(setting.to.holds(round, 0, size), "what was read is what was sent");
	}
}

/* When a receive completes, all data written before the message has been placed. */
void write_then_send(const std::string &address)
{
	Setting setting(address);

	for (std::uint32_t round = 1; round <= 20; round++) {
		setting.from.fill(round);
		setting.b.receive(setting.to.sge(0, 8), round);
		setting.a.write(setting.from.sge(8, room - 8), setting.to.address() + 8,
				setting.rkey(), 1);
		setting.a.send(setting.from.sge(0, 8), 2);
		expect_completion(setting.b.recv_cq(), IBV_WC_SUCCESS, round);
		require(setting.to.holds(round, 0, room), "all written data is there");
		expect_completion(setting.a.send_cq(), IBV_WC_SUCCESS, 1);
		expect_completion(setting.a.send_cq(), IBV_WC_SUCCESS, 2);
	}
}

/* Both ends write and read at the same time. */
void both_ways_at_once(const std::string &address)
{
	constexpr std::uint32_t size = 40000, count = 20;
	Setting setting(address);
	Buffer a_into(setting.a.pd(), size * count), b_into(setting.b.pd(), size * count);

	setting.from.fill(1);
	setting.to.fill(2);
	for (std::uint32_t i = 0; i < count; i++) {
		std::uint64_t offset = std::uint64_t{ i } * size;

		setting.a.write(setting.from.sge(offset, size), b_into.address() + offset,
				b_into.mr()->rkey, i);
		setting.b.write(setting.to.sge(offset, size), a_into.address() + offset,
				a_into.mr()->rkey, i);
	}
	for (std::uint32_t i = 0; i < count; i++) {
		setting.a.read(a_into.sge(0, 1), b_into.address(), b_into.mr()->rkey, 100);
		setting.b.read(b_into.sge(0, 1), a_into.address(), a_into.mr()->rkey, 100);
	}
	for (End *end : { &setting.a, &setting.b }) {
		for (std::uint32_t i = 0; i < count; i++)
			expect_completion(end->send_cq(), IBV_WC_SUCCESS, i);
		for (std::uint32_t i = 0; i < count; i++)
			expect_completion(end->send_cq(), IBV_WC_SUCCESS, 100);
	}
	require(a_into.holds(2, 1, size * count - 1), "a has the data that b wrote");
	require(b_into.holds(1, 1, size * count - 1), "b has the data that a wrote");
}

/* The sender does not poll its completion queue until the burst has arrived. */
void burst_without_poll(const std::string &address)
{
	Setting setting(address);
	constexpr std::uint32_t burst = 48, bursts = 20;

	for (std::uint32_t i = 1; i <= bursts; i++) {
		setting.from.fill(i);
		for (std::uint32_t n = 0; n < burst; n++)
			setting.a.write(setting.from.sge(n * 64, 64), setting.to.address() + n * 64,
					setting.to.mr()->rkey, n);
		for (auto end = steady_clock::now() + 10s; !setting.to.holds(i, 0, burst * 64);)
			require(steady_clock::now() < end, "the burst arrives");
		for (std::uint32_t n = 0; n < burst; n++)
			expect_completion(setting.a.send_cq(), IBV_WC_SUCCESS, n);
	}
}

/* The peer uses the addresses that the owner of the region chose, not those of the memory. */
void chosen_iova(const std::string &address)
{
	Setting setting(address);
	constexpr std::uint64_t iova = 0x123456789000;
	Mr mr(ibv_reg_mr_iova(setting.b.pd(), setting.to.bytes().data(), 8192, iova,
			      Buffer::all_rights));

	require(mr != nullptr, "the region is registered");
	setting.from.fill(setting.seed);
	setting.a.write(setting.from.sge(4000, 200), iova + 4000, mr->rkey, 1);
	setting.a.read(setting.from.sge(0, 1), iova + 4000, mr->rkey, 2);
	expect_completion(setting.a.send_cq(), IBV_WC_SUCCESS, 1);
	expect_completion(setting.a.send_cq(), IBV_WC_SUCCESS, 2);
	setting.expect_arrived(4000, 200);
	setting.a.write(setting.from.sge(0, 8), setting.to.address(), mr->rkey, 3);
	setting.pair.expect_disconnect();
}

const cases::Case all[] = {
	{ "writes of all sizes", writes_of_all_sizes },
	{ "reads of all sizes", reads_of_all_sizes },
	{ "sends of all sizes", sends_of_all_sizes },
	{ "sends gathered and scattered in up to 16 pieces", in_sixteen_pieces },
	{ "inline sends of 0 to 512 octets", inline_of_all_sizes },
	{ "a fenced send waits for the read before it", fence },
	{ "a send arrives after the writes before it", write_then_send },
	{ "both ends write and read at once", both_ways_at_once },
	{ "a burst arrives although its sender does not poll", burst_without_poll },
	{ "a region has the addresses that its owner chose", chosen_iova },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
