/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* RAII classes for verbs and rdma_cm objects, and two connected ends in one process. */
#include "rdma.hpp"

#include "device.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <format>
#include <stdexcept>
#include <thread>

namespace rdma
{

using Clock = std::chrono::steady_clock;

void fail(const std::string &what, int err, Where where)
{
	std::string reason = err ? std::format(": {}", std::strerror(err)) : "";

	throw std::runtime_error(
		std::format("{}:{}: {}{}", where.file_name(), where.line(), what, reason));
}

void require(bool claim, const std::string &what, Where where)
{
	if (!claim)
		fail(what, 0, where);
}

void DestroyId::operator()(rdma_cm_id *id) const
{
	if (id->qp)
		rdma_destroy_qp(id);
	rdma_destroy_id(id);
}

bool wait_readable(int fd, int timeout_ms)
{
	pollfd poll_fd = { fd, POLLIN, 0 };

	return poll(&poll_fd, 1, timeout_ms) == 1;
}

Event next_event(rdma_event_channel *channel, int timeout_ms)
{
	rdma_cm_event *event;
	Event answer;

	if (!wait_readable(channel->fd, timeout_ms))
		return answer;
	if (rdma_get_cm_event(channel, &event))
		fail("rdma_get_cm_event", errno);
	answer.type = event->event;
	answer.status = event->status;
	answer.id = event->id;
	answer.responder_resources = event->param.conn.responder_resources;
	answer.initiator_depth = event->param.conn.initiator_depth;
	if (auto *data = static_cast<const std::uint8_t *>(event->param.conn.private_data))
		answer.private_data.assign(data, data + event->param.conn.private_data_len);
	rdma_ack_cm_event(event);
	return answer;
}

Event expect_event(rdma_event_channel *channel, rdma_cm_event_type type, int timeout_ms,
		   Where where)
{
	Event event = next_event(channel, timeout_ms);

	if (event.type < 0)
		fail(std::format("no {} in {} ms", rdma_event_str(type), timeout_ms), 0, where);
	if (event.type != type)
		fail(std::format("{} with status {} instead of {}",
				 rdma_event_str(static_cast<rdma_cm_event_type>(event.type)),
				 event.status, rdma_event_str(type)),
		     0, where);
	return event;
}

Buffer::Buffer(ibv_pd *pd, std::size_t size, int access)
	: memory_(static_cast<std::uint8_t *>(
		  std::aligned_alloc(4096, (size + 4095) / 4096 * 4096))),
	  size_(size)
{
	std::ranges::fill(bytes(), 0);
	mr_.reset(ibv_reg_mr(pd, memory_.get(), size, access));
	if (!mr_)
		fail("ibv_reg_mr", errno);
}

void fill(std::span<std::uint8_t> octets, std::uint32_t seed)
{
	for (std::size_t place = 0; place < octets.size(); place++)
		octets[place] = pattern(seed, place);
}

bool holds(std::span<const std::uint8_t> octets, std::uint32_t seed, std::size_t offset,
	   std::size_t length)
{
	for (std::size_t place = offset; place < offset + length; place++)
		if (octets[place] != pattern(seed, place))
			return false;
	return true;
}

bool is_zero(std::span<const std::uint8_t> octets)
{
	return std::ranges::all_of(octets, [](auto octet) { return !octet; });
}

End::End(Id id, const QpOptions &options) : pd_(options.pd)
{
	ibv_qp_init_attr_ex attr = {};

	if (!pd_ && options.srq)
		pd_ = options.srq->pd;
	if (!pd_) {
		own_pd_.reset(ibv_alloc_pd(id->verbs));
		pd_ = own_pd_.get();
	}
	if (!pd_)
		fail("ibv_alloc_pd", errno);
	if (!options.cq)
		create_queues(id->verbs, options);
	attr.send_cq = options.cq ? options.cq : send_cq_.get();
	attr.recv_cq = options.cq ? options.cq : recv_cq_.get();
	attr.srq = options.srq;
	attr.cap = { options.send_wr, options.srq ? 0 : options.recv_wr, options.send_sge,
		     options.srq ? 0 : options.recv_sge, options.inline_data };
	attr.qp_type = IBV_QPT_RC;
	attr.comp_mask = IBV_QP_INIT_ATTR_PD;
	attr.pd = pd_;
	if (options.send_ops) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = options.send_ops;
	}
	if (rdma_create_qp_ex(id.get(), &attr))
		fail("rdma_create_qp_ex", errno);
	cap_ = attr.cap;
	id_ = std::move(id);
}

void End::create_queues(ibv_context *context, const QpOptions &options)
{
	if (options.notify) {
		channel_.reset(ibv_create_comp_channel(context));
		if (!channel_)
			fail("ibv_create_comp_channel", errno);
	}
	send_cq_.reset(ibv_create_cq(context, options.cq_entries, nullptr, channel_.get(), 0));
	recv_cq_.reset(ibv_create_cq(context, options.cq_entries, nullptr, channel_.get(), 0));
	if (!send_cq_ || !recv_cq_)
		fail("ibv_create_cq", errno);
}

ibv_qp_state End::state() const
{
	return state_of(qp());
}

void End::move_to(ibv_qp_state state, Where where)
{
	if (int err = modify(qp(), state))
		fail(std::format("ibv_modify_qp to state {}", static_cast<int>(state)), err, where);
}

void End::connect(rdma_conn_param parameters, Where where)
{
	if (rdma_connect(id(), &parameters))
		fail("rdma_connect", errno, where);
}

void End::accept(rdma_conn_param parameters, Where where)
{
	if (rdma_accept(id(), &parameters))
		fail("rdma_accept", errno, where);
}

int End::post(ibv_send_wr &wr, ibv_send_wr **bad)
{
	ibv_send_wr *ignored;

	return ibv_post_send(qp(), &wr, bad ? bad : &ignored);
}

int End::post(ibv_recv_wr &wr, ibv_recv_wr **bad)
{
	ibv_recv_wr *ignored;

	return ibv_post_recv(qp(), &wr, bad ? bad : &ignored);
}

ibv_send_wr signaled(ibv_wr_opcode opcode, ibv_sge &sge, std::uint64_t wr_id)
{
	ibv_send_wr wr = {};

	wr.wr_id = wr_id;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.opcode = opcode;
	wr.send_flags = IBV_SEND_SIGNALED;
	return wr;
}

void End::post_rdma(ibv_wr_opcode opcode, ibv_sge local, std::uint64_t remote, std::uint32_t rkey,
		    std::uint64_t wr_id)
{
	ibv_send_wr wr = signaled(opcode, local, wr_id);

	wr.wr.rdma = { remote, rkey };
	if (int err = post(wr))
		fail("ibv_post_send", err);
}

void End::write(ibv_sge from, std::uint64_t to, std::uint32_t rkey, std::uint64_t wr_id)
{
	post_rdma(IBV_WR_RDMA_WRITE, from, to, rkey, wr_id);
}

void End::read(ibv_sge into, std::uint64_t from, std::uint32_t rkey, std::uint64_t wr_id)
{
	post_rdma(IBV_WR_RDMA_READ, into, from, rkey, wr_id);
}

void End::bind(ibv_mw *mw, const ibv_mw_bind_info &info, std::uint64_t wr_id)
{
	ibv_send_wr wr = {};

	wr.wr_id = wr_id;
	wr.opcode = IBV_WR_BIND_MW;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.bind_mw = { mw, ibv_inc_rkey(mw->rkey), info };
	if (int err = post(wr))
		fail("ibv_post_send", err);
	mw->rkey = wr.bind_mw.rkey;
}

void End::send(ibv_sge from, std::uint64_t wr_id, unsigned int flags)
{
	ibv_send_wr wr = signaled(IBV_WR_SEND, from, wr_id);

	wr.send_flags = flags;
	if (int err = post(wr))
		fail("ibv_post_send", err);
}

void End::receive(ibv_sge into, std::uint64_t wr_id)
{
	ibv_recv_wr wr = { wr_id, nullptr, &into, 1 };

	if (int err = post(wr))
		fail("ibv_post_recv", err);
}

std::optional<ibv_wc> poll_until(ibv_cq *cq, int timeout_ms)
{
	auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
	ibv_wc wc = {};

	do {
		int count = ibv_poll_cq(cq, 1, &wc);

		if (count < 0)
			fail("ibv_poll_cq", -count);
		if (count)
			return wc;
	} while (Clock::now() < deadline);
	return std::nullopt;
}

ibv_wc next_completion(ibv_cq *cq, int timeout_ms, Where where)
{
	auto wc = poll_until(cq, timeout_ms);

	if (!wc)
		fail(std::format("no completion in {} ms", timeout_ms), 0, where);
	return *wc;
}

ibv_wc expect_completion(ibv_cq *cq, ibv_wc_status status, std::uint64_t wr_id, Where where)
{
	ibv_wc wc = next_completion(cq, 10000, where);

	if (wc.status != status || wc.wr_id != wr_id)
		fail(std::format("completion {} \"{}\" instead of {} \"{}\"", wc.wr_id,
				 ibv_wc_status_str(wc.status), wr_id, ibv_wc_status_str(status)),
		     0, where);
	return wc;
}

void expect_no_completion(ibv_cq *cq, int time_ms, Where where)
{
	auto wc = poll_until(cq, time_ms);

	if (wc)
		fail(std::format("completion {} \"{}\" where none is due", wc->wr_id,
				 ibv_wc_status_str(wc->status)),
		     0, where);
}

void End::write_and_read(ibv_sge from, ibv_sge into, std::uint64_t to, std::uint32_t rkey,
			 Where where)
{
	write(from, to, rkey, 1);
	read(into, to, rkey, 2);
	expect_completion(send_cq(), IBV_WC_SUCCESS, 1, where);
	expect_completion(send_cq(), IBV_WC_SUCCESS, 2, where);
}

/* Puts this thread into a named network namespace, and back into its own at the end. */
class Visit
{
public:
	explicit Visit(const char *name) : own_(open("/proc/thread-self/ns/net", O_RDONLY))
	{
		int there = open(std::format("/run/netns/{}", name).c_str(), O_RDONLY);

		if (setns(there, CLONE_NEWNET))
			fail("setns", errno);
		close(there);
	}
	~Visit()
	{
		setns(own_, CLONE_NEWNET);
		close(own_);
	}

private:
	int own_;
};

Id create_id(rdma_event_channel *channel)
{
	rdma_cm_id *id;

	if (rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP))
		fail("rdma_create_id", errno);
	return Id(id);
}

EventChannel create_event_channel()
{
	EventChannel channel(rdma_create_event_channel());

	if (!channel)
		fail("rdma_create_event_channel", errno);
	return channel;
}

void await(const std::string &what, const std::function<bool()> &is_so, Where where)
{
	for (int i = 0; !is_so(); i++) {
		require(i < 100, what, where);
		std::this_thread::sleep_for(std::chrono::milliseconds(100));
	}
}

sockaddr_storage parse_address(const std::string &address, std::uint16_t port)
{
	addrinfo hints = {};
	addrinfo *info;
	sockaddr_storage parsed = {};

	hints.ai_flags = AI_NUMERICHOST;
	if (int err = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &info))
		fail(std::format("{}: {}", address, gai_strerror(err)));
	std::memcpy(&parsed, info->ai_addr, info->ai_addrlen);
	freeaddrinfo(info);
	return parsed;
}

/* The connection manager may choose a port that TCP already uses; then try another one. */
Listener::Listener(const std::string &address, std::uint16_t port, int backlog)
	: channel_(create_event_channel())
{
	sockaddr_storage at = parse_address(address, port);
	int tries = port ? 1 : 20;

	do {
		id_ = create_id(channel_.get());
		if (rdma_bind_addr(id_.get(), reinterpret_cast<sockaddr *>(&at)))
			fail("rdma_bind_addr", errno);
		if (!rdma_listen(id_.get(), backlog))
			return;
	} while (errno == EADDRINUSE && --tries);
	fail("rdma_listen", errno);
}

Id Listener::next_request(int timeout_ms)
{
	return Id(expect_event(channel_.get(), RDMA_CM_EVENT_CONNECT_REQUEST, timeout_ms).id);
}

/* If CALLER_NETNS names a network namespace, all calls come from there. Two ends in one process can
 * so talk over a network. An id belongs to the namespace of the thread that creates it.
 */
static Id create_calling_id(rdma_event_channel *channel)
{
	std::optional<Visit> visit;

	if (const char *name = std::getenv("CALLER_NETNS"))
		visit.emplace(name);
	return create_id(channel);
}

Id resolve(rdma_event_channel *channel, const sockaddr *to, const sockaddr *from)
{
	Id id = create_calling_id(channel);

	if (rdma_resolve_addr(id.get(), const_cast<sockaddr *>(from), const_cast<sockaddr *>(to),
			      5000))
		fail("rdma_resolve_addr", errno);
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (rdma_resolve_route(id.get(), 5000))
		fail("rdma_resolve_route", errno);
	expect_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return id;
}

Id resolve(rdma_event_channel *channel, const std::string &address, std::uint16_t port)
{
	sockaddr_storage to = parse_address(address, port);

	return resolve(channel, reinterpret_cast<sockaddr *>(&to));
}

rdma_conn_param connection_parameters(std::span<const std::uint8_t> private_data)
{
	rdma_conn_param parameters = {};

	parameters.private_data = private_data.data();
	parameters.private_data_len = static_cast<std::uint8_t>(private_data.size());
	parameters.responder_resources = 16;
	parameters.initiator_depth = 16;
	parameters.retry_count = 7;
	parameters.rnr_retry_count = 7;
	return parameters;
}

Pair::Pair(const std::string &address, const QpOptions &options) : Pair(address, options, options)
{
}

Pair::Pair(const std::string &address, const QpOptions &a, const QpOptions &b)
	: listener_(address), a_channel_(create_event_channel())
{
	rdma_conn_param parameters = connection_parameters();

	parameters.initiator_depth = a.ord;
	a_.emplace(resolve(a_channel_.get(), listener_.address()), a);
	a_->connect(parameters);
	b_.emplace(listener_.next_request(), b);
	parameters.initiator_depth = b.ord;
	b_->accept(parameters);
	expect_event(a_channel(), RDMA_CM_EVENT_ESTABLISHED);
	expect_event(b_channel(), RDMA_CM_EVENT_ESTABLISHED);
}

void Pair::expect_disconnect(Where where)
{
	expect_event(a_channel(), RDMA_CM_EVENT_DISCONNECTED, 10000, where);
	expect_event(b_channel(), RDMA_CM_EVENT_DISCONNECTED, 10000, where);
}

void Pair::expect_alive(Where where)
{
	Buffer from(a().pd(), 512), to(b().pd(), 512), back(a().pd(), 512);

	from.fill(77);
	a().write(from.sge(0, 512), to.address(), to.mr()->rkey, 7001);
	a().read(back.sge(0, 512), to.address(), to.mr()->rkey, 7002);
	expect_completion(a().send_cq(), IBV_WC_SUCCESS, 7001, where);
	expect_completion(a().send_cq(), IBV_WC_SUCCESS, 7002, where);
	require(to.holds(77, 0, 512) && back.holds(77, 0, 512), "the data has arrived", where);
}

} /* namespace rdma */
