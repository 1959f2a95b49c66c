/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* RAII classes for verbs and rdma_cm objects, and two connected ends in one process. */
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <vector>

namespace rdma
{

using Where = std::source_location;

/* Throws an error with the caller's line, what failed, and the text of err. */
[[noreturn]] void fail(const std::string &what, int err = 0, Where where = Where::current());

/* Throws unless the claim is true. */
void require(bool claim, const std::string &what, Where where = Where::current());

template <auto destroy>
struct Destroy {
	void operator()(auto *object) const { destroy(object); }
};

template <typename Object, auto destroy>
using Owner = std::unique_ptr<Object, Destroy<destroy>>;

using Context = Owner<ibv_context, ibv_close_device>;
using Pd = Owner<ibv_pd, ibv_dealloc_pd>;
using Cq = Owner<ibv_cq, ibv_destroy_cq>;
using CqEx = Owner<ibv_cq_ex, [](ibv_cq_ex *cq) { ibv_destroy_cq(ibv_cq_ex_to_cq(cq)); }>;
using Srq = Owner<ibv_srq, ibv_destroy_srq>;
using Qp = Owner<ibv_qp, ibv_destroy_qp>;
using Mr = Owner<ibv_mr, ibv_dereg_mr>;
using Mw = Owner<ibv_mw, ibv_dealloc_mw>;
using Dm = Owner<ibv_dm, ibv_free_dm>;
using CompletionChannel = Owner<ibv_comp_channel, ibv_destroy_comp_channel>;
using EventChannel = Owner<rdma_event_channel, rdma_destroy_event_channel>;

/* Destroys an rdma_cm_id and its QP. */
struct DestroyId {
	void operator()(rdma_cm_id *id) const;
};
using Id = std::unique_ptr<rdma_cm_id, DestroyId>;

/* Waits for input or hang-up. Returns false after the timeout. */
bool wait_readable(int fd, int timeout_ms);

/* Waits until is_so() is true. Checks ten times a second, and fails after ten seconds. */
void await(const std::string &what, const std::function<bool()> &is_so,
	   Where where = Where::current());

/* Parses a numeric address and adds the port. */
sockaddr_storage parse_address(const std::string &address, std::uint16_t port);

EventChannel create_event_channel();
Id create_id(rdma_event_channel *channel);

/* The next event, already acknowledged; its type is -1 if none comes within the timeout. For a
 * connect request it has the new id and the private data of the peer.
 */
struct Event {
	int type = -1;
	int status = 0;
	rdma_cm_id *id = nullptr;
	std::vector<std::uint8_t> private_data;
	int responder_resources = 0; /* Reads that the peer wants to have outstanding */
	int initiator_depth = 0;     /* Reads that the peer grants us */
};
Event next_event(rdma_event_channel *channel, int timeout_ms = 10000);

/* The next event, which must have this type. */
Event expect_event(rdma_event_channel *channel, rdma_cm_event_type type, int timeout_ms = 10000,
		   Where where = Where::current());

/* fill() fills memory with the pattern of a seed; holds() checks for it. */
void fill(std::span<std::uint8_t> octets, std::uint32_t seed);
bool holds(std::span<const std::uint8_t> octets, std::uint32_t seed, std::size_t offset,
	   std::size_t length);
bool is_zero(std::span<const std::uint8_t> octets);

/* Registered memory, initially zero. */
class Buffer
{
public:
	static constexpr int all_rights =
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

	Buffer(ibv_pd *pd, std::size_t size, int access = all_rights);

	std::span<std::uint8_t> bytes() { return { memory_.get(), size_ }; }
	std::span<const std::uint8_t> bytes() const { return { memory_.get(), size_ }; }
	std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(memory_.get()); }
	ibv_mr *mr() const { return mr_.get(); }
	ibv_sge sge(std::size_t offset, std::uint32_t length) const
	{
		return { address() + offset, length, mr_->lkey };
	}

	void fill(std::uint32_t seed) { rdma::fill(bytes(), seed); }
	bool holds(std::uint32_t seed, std::size_t offset, std::size_t length) const
	{
		return rdma::holds(bytes(), seed, offset, length);
	}
	bool is_zero() const { return rdma::is_zero(bytes()); }

private:
	struct Free {
		void operator()(std::uint8_t *memory) const { std::free(memory); }
	};
	std::unique_ptr<std::uint8_t, Free> memory_;
	std::size_t size_;
	Mr mr_;
};

/* The byte at a place of a pattern. It depends on the place and on the seed. */
constexpr std::uint8_t pattern(std::uint32_t seed, std::size_t place)
{
	std::uint64_t x = (place + 1) * 0x9e3779b97f4a7c15 + seed * 0xd1b54a32d192ed03;

	return static_cast<std::uint8_t>((x ^ x >> 29) * 0xbf58476d1ce4e5b9 >> 56);
}

struct QpOptions {
	std::uint32_t send_wr = 64;
	std::uint32_t recv_wr = 64;
	std::uint32_t send_sge = 4;
	std::uint32_t recv_sge = 4;
	std::uint32_t inline_data = 64;
	int cq_entries = 256;
	ibv_srq *srq = nullptr;
	ibv_cq *cq = nullptr;	    /* if null, the QP gets two CQs of its own */
	ibv_pd *pd = nullptr;	    /* if null, that of the SRQ or a new one */
	bool notify = false;	    /* give the QP's own CQs a completion channel */
	std::uint64_t send_ops = 0; /* IBV_QP_EX_WITH_*, to post by ibv_wr_*() */
	std::uint8_t ord = 16;	    /* Reads and Atomics that may be outstanding */
};

/* A signaled request with one SGE. It points to sge, which must outlive it. */
ibv_send_wr signaled(ibv_wr_opcode opcode, ibv_sge &sge, std::uint64_t wr_id = 0);

/* Makes one list of requests. */
void make_list(auto &requests)
{
	for (std::size_t i = 1; i < std::size(requests); i++)
		requests[i - 1].next = &requests[i];
}

rdma_conn_param connection_parameters(std::span<const std::uint8_t> private_data = {});

/* One end of a connection: an id with its PD, CQs and QP. */
class End
{
public:
	End(Id id, const QpOptions &options);

	rdma_cm_id *id() const { return id_.get(); }
	ibv_qp *qp() const { return id_->qp; }
	ibv_pd *pd() const { return pd_; }
	ibv_cq *send_cq() const { return qp()->send_cq; }
	ibv_cq *recv_cq() const { return qp()->recv_cq; }
	ibv_comp_channel *channel() const { return channel_.get(); }
	const ibv_qp_cap &cap() const { return cap_; }
	ibv_qp_state state() const;

	/* These fail if the verb is refused. */
	void move_to(ibv_qp_state state, Where where = Where::current());
	void connect(rdma_conn_param parameters = connection_parameters(),
		     Where where = Where::current());
	void accept(rdma_conn_param parameters = connection_parameters(),
		    Where where = Where::current());

	/* Returns the error of the post, or 0. */
	int post(ibv_send_wr &wr, ibv_send_wr **bad = nullptr);
	int post(ibv_recv_wr &wr, ibv_recv_wr **bad = nullptr);

	/* Post one request with one SGE; fail if that is refused. */
	void write(ibv_sge from, std::uint64_t to, std::uint32_t rkey, std::uint64_t wr_id = 0);
	void read(ibv_sge into, std::uint64_t from, std::uint32_t rkey, std::uint64_t wr_id = 0);
	void send(ibv_sge from, std::uint64_t wr_id = 0, unsigned int flags = IBV_SEND_SIGNALED);
	void receive(ibv_sge into, std::uint64_t wr_id = 0);

	/* Writes, and reads from the same place: when the Read is answered, the data is there. */
	void write_and_read(ibv_sge from, ibv_sge into, std::uint64_t to, std::uint32_t rkey,
			    Where where = Where::current());

	/* Posts the binding of a window of type 2, with its next STag. */
	void bind(ibv_mw *mw, const ibv_mw_bind_info &info, std::uint64_t wr_id = 0);

private:
	void create_queues(ibv_context *context, const QpOptions &options);
	void post_rdma(ibv_wr_opcode opcode, ibv_sge local, std::uint64_t remote,
		       std::uint32_t rkey, std::uint64_t wr_id);

	/* In the order of creation: later members refer to earlier ones. */
	Pd own_pd_;
	ibv_pd *pd_;
	CompletionChannel channel_;
	Cq send_cq_;
	Cq recv_cq_;
	Id id_;
	ibv_qp_cap cap_ = {};
};

/* The next completion of a queue, or none if it does not come in time. */
std::optional<ibv_wc> poll_until(ibv_cq *cq, int timeout_ms);

/* The next completion of a queue; fails after the timeout. */
ibv_wc next_completion(ibv_cq *cq, int timeout_ms = 10000, Where where = Where::current());

/* The next completion, which must have this status and wr_id. */
ibv_wc expect_completion(ibv_cq *cq, ibv_wc_status status, std::uint64_t wr_id,
			 Where where = Where::current());

/* Fails if a completion comes within the time. */
void expect_no_completion(ibv_cq *cq, int time_ms = 100, Where where = Where::current());

/* A listener at an address, on the given port or, if that is 0, on a free one. */
class Listener
{
public:
	explicit Listener(const std::string &address, std::uint16_t port = 0, int backlog = 128);

	rdma_event_channel *channel() const { return channel_.get(); }
	const sockaddr *address() const { return rdma_get_local_addr(id_.get()); }
	Id next_request(int timeout_ms = 10000);

private:
	EventChannel channel_;
	Id id_;
};

/* A new id with the address and the route of the peer resolved. */
Id resolve(rdma_event_channel *channel, const sockaddr *to, const sockaddr *from = nullptr);
Id resolve(rdma_event_channel *channel, const std::string &address, std::uint16_t port);

/* Two connected ends in one process: a called, b accepted. */
class Pair
{
public:
	explicit Pair(const std::string &address, const QpOptions &options = {});
	Pair(const std::string &address, const QpOptions &a, const QpOptions &b);

	End &a() { return *a_; }
	End &b() { return *b_; }
	rdma_event_channel *a_channel() const { return a_channel_.get(); }
	rdma_event_channel *b_channel() const { return listener_.channel(); }

	/* Both ends must be told that the connection has ended. */
	void expect_disconnect(Where where = Where::current());
	/* Checks that the connection still works, by a Write and a Read of a. */
	void expect_alive(Where where = Where::current());

private:
	Listener listener_;
	EventChannel a_channel_;
	std::optional<End> a_;
	std::optional<End> b_;
};

} /* namespace rdma */
