/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* The peer: both ends of the traffic that the themes in tests/netns run.
 *
 *	peer [OPTION...] listen ADDRESS PORT
 *	peer [OPTION...] connect ADDRESS PORT
 *
 * The caller writes to the listener's memory and reads it back. It also sends messages, which the
 * listener sends back. It compares all data that returns. Both print a line for each event of a
 * connection: "open", "data" after the first round of all connections, and the names of rdma_cm
 * events.
 */
#include "device.hpp"

#include <getopt.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <format>
#include <iostream>
#include <list>
#include <syncstream>
#include <thread>

using namespace rdma;

namespace
{

struct Options {
	std::string role;
	std::string address;
	std::uint16_t port = 0;
	unsigned int connections = 1; /* of the caller at a time, or of the listener in total */
	unsigned int times = 1;	      /* how often the caller opens and closes them */
	std::uint32_t size = 4096;    /* bytes of memory per connection */
	int patience = 10;	      /* seconds that the caller waits for a completion */
	bool endless = false;	      /* transfer data until an event ends the connection */
	bool no_atomics = false;      /* the listener must refuse an atomic */
};

constexpr std::uint32_t message_size = 256;

/* Prints a line; lines of several threads do not mix. */
void tell(std::string_view line)
{
	std::osyncstream(std::cout) << line << std::endl;
}

/* The listener's private data: the memory of this connection. */
struct Memory {
	std::uint64_t address;
	std::uint32_t rkey;
	std::uint32_t size;
};

/* Serves all connections from one shared receive queue. */
class Server
{
public:
	explicit Server(const Options &options)
		: options_(options), listener_(options.address, options.port, 1024)
	{
	}

	/* Returns when the wanted number of connections have come and gone. */
	void run()
	{
		while (ended_ < options_.connections) {
			int completions = channel_ && !device_is_gone_ ? channel_->fd : -1;
			std::array<pollfd, 2> fds = { { { listener_.channel()->fd, POLLIN, 0 },
							{ completions, POLLIN, 0 } } };

			if (poll(fds.data(), fds.size(), -1) < 0)
				fail("poll", errno);
			if (fds[1].revents)
				handle_completions();
			if (fds[0].revents)
				handle_event();
		}
	}

private:
	static constexpr std::uint32_t slots = 512; /* messages in flight */
	static constexpr std::uint64_t is_send = 1ull << 32;

	void handle_event()
	{
		Event event = next_event(listener_.channel(), 0);

		switch (event.type) {
		case RDMA_CM_EVENT_CONNECT_REQUEST:
			accept(Id(event.id));
			break;
		case RDMA_CM_EVENT_ESTABLISHED:
			tell("open");
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
		case RDMA_CM_EVENT_CONNECT_ERROR:
		case RDMA_CM_EVENT_DEVICE_REMOVAL: /* also comes for the listening id */
			if (std::erase_if(ends_, [&](auto &end) { return end.id() == event.id; })) {
				ended_++;
				tell(rdma_event_str(static_cast<rdma_cm_event_type>(event.type)));
			}
			break;
		default:
			break;
		}
	}

	void accept(Id id)
	{
		if (!pd_)
			create_resources(id->verbs);

		QpOptions qp = { .recv_wr = 0, .recv_sge = 0, .srq = srq_.get(), .cq = cq_.get() };
		std::uint32_t slot = accepted_++ % memory_slots();
		Memory memory = { memory_->address() + std::uint64_t{ slot } * options_.size,
				  memory_->mr()->rkey, options_.size };
		std::array<std::uint8_t, sizeof(memory)> data;

		std::memcpy(data.data(), &memory, sizeof(memory));

		rdma_conn_param parameters = connection_parameters(data);
		End &end = ends_.emplace_back(std::move(id), qp);

		if (rdma_accept(end.id(), &parameters)) {
			tell(std::format("rdma_accept: {}", std::strerror(errno)));
			ends_.pop_back();
		}
	}

	/* One slot of memory for each open connection, within reason. */
	std::uint32_t memory_slots() const { return std::clamp(options_.connections, 1u, 1024u); }

	void create_resources(ibv_context *context)
	{
		ibv_srq_init_attr attr = { nullptr, { slots, 1, 0 } };

		pd_.reset(ibv_alloc_pd(context));
		channel_.reset(ibv_create_comp_channel(context));
		cq_.reset(ibv_create_cq(context, 4 * slots, nullptr, channel_.get(), 0));
		srq_.reset(ibv_create_srq(pd_.get(), &attr));
		if (!pd_ || !channel_ || !cq_ || !srq_)
			fail("cannot create PD, CQ or SRQ", errno);
		memory_.emplace(pd_.get(), std::size_t{ options_.size } * memory_slots());
		messages_.emplace(pd_.get(), std::size_t{ slots } * message_size);
		for (std::uint32_t slot = 0; slot < slots; slot++)
			post_receive(slot);
		if (int err = ibv_req_notify_cq(cq_.get(), 0))
			fail("ibv_req_notify_cq", err);
	}

	void post_receive(std::uint32_t slot)
	{
		post(srq_.get(), messages_->sge(std::size_t{ slot } * message_size, message_size),
		     slot);
	}

	void handle_completions()
	{
		ibv_cq *cq;
		void *context;
		ibv_wc wc;

		if (ibv_get_cq_event(channel_.get(), &cq, &context)) {
			if (errno != EIO)
				fail("ibv_get_cq_event", errno);
			device_is_gone_ = true;
			return;
		}
		ibv_ack_cq_events(cq, 1);
		if (int err = ibv_req_notify_cq(cq, 0))
			fail("ibv_req_notify_cq", err);
		while (ibv_poll_cq(cq, 1, &wc) == 1)
			handle(wc);
	}

	/* Sends a message back to its sender. When that completes, posts the receive again. */
	void handle(const ibv_wc &wc)
	{
		auto slot = static_cast<std::uint32_t>(wc.wr_id);
		auto end = std::ranges::find_if(
			ends_, [&](const End &one) { return one.qp()->qp_num == wc.qp_num; });

		if (wc.status != IBV_WC_SUCCESS || wc.wr_id & is_send || end == ends_.end()) {
			post_receive(slot);
			return;
		}
		ibv_sge sge = messages_->sge(std::size_t{ slot } * message_size, wc.byte_len);
		ibv_send_wr wr = signaled(IBV_WR_SEND, sge, slot | is_send);

		end->post(wr); /* fails if the device is gone, but may complete even then */
	}

	const Options &options_;
	Listener listener_;
	Pd pd_;
	CompletionChannel channel_;
	Cq cq_;
	Srq srq_;
	std::optional<Buffer> memory_;
	std::optional<Buffer> messages_;
	std::list<End> ends_;
	unsigned int accepted_ = 0;
	unsigned int ended_ = 0;
	bool device_is_gone_ = false; /* no more completions come, only events */
};

/* One connection of the caller. */
class Call
{
public:
	explicit Call(const Options &options)
		: options_(options), channel_(rdma_create_event_channel()),
		  end_(resolve(channel_.get(), options.address, options.port), {}),
		  out_(end_.pd(), options.size), in_(end_.pd(), options.size),
		  message_(end_.pd(), 2 * message_size)
	{
		rdma_conn_param parameters = connection_parameters();

		if (rdma_connect(end_.id(), &parameters))
			fail("rdma_connect", errno);

		Event event = expect_event(channel_.get(), RDMA_CM_EVENT_ESTABLISHED);

		require(event.private_data.size() >= sizeof(memory_),
			"the listener sends the address of its memory");
		std::memcpy(&memory_, event.private_data.data(), sizeof(memory_));
		require(memory_.size == options.size, "both ends use the same size");
	}

	/* Posts a message, a write for each piece of the memory and a read of all of it at once,
	 * and compares the echo of the message and the data that was read.
	 */
	void round(std::uint32_t seed)
	{
		constexpr std::uint32_t pieces = 8;
		std::uint32_t piece = options_.size / pieces;

		out_.fill(seed);
		send_message(seed);
		for (std::uint32_t i = 0; i < pieces; i++)
			end_.write(out_.sge(std::size_t{ i } * piece, piece),
				   memory_.address + std::uint64_t{ i } * piece, memory_.rkey, i);
		end_.read(in_.sge(0, options_.size), memory_.address, memory_.rkey, pieces);
		expect_success(end_.send_cq(), 101);
		for (std::uint32_t i = 0; i <= pieces; i++)
			expect_success(end_.send_cq(), i);
		require(in_.holds(seed, 0, piece * pieces), "the data is read back");
		expect_echo();
	}

	void send_message(std::uint32_t seed)
	{
		auto octets = message_.bytes();

		for (std::size_t i = 0; i < message_size; i++)
			octets[i] = pattern(seed, i);
		end_.receive(message_.sge(message_size, message_size), 100);
		end_.send(message_.sge(0, message_size), 101);
	}

	void expect_success(ibv_cq *cq, std::uint64_t wr_id)
	{
		const ibv_wc wc = next_completion(cq, options_.patience * 1000);

		require(wc.status == IBV_WC_SUCCESS && wc.wr_id == wr_id,
			std::format("completion {} \"{}\" is the good one of {}", wc.wr_id,
				    ibv_wc_status_str(wc.status), wr_id));
	}

	void expect_echo()
	{
		auto octets = message_.bytes();

		expect_success(end_.recv_cq(), 100);
		require(std::ranges::equal(octets.first(message_size), octets.last(message_size)),
			"the echo is the message");
	}

	/* The atomic request completes with the right error, and the connection ends. */
	void expect_atomic_refused()
	{
		ibv_sge sge = in_.sge(0, 8);
		ibv_send_wr wr = signaled(IBV_WR_ATOMIC_FETCH_AND_ADD, sge, 102);

		wr.wr.atomic = { memory_.address, 1, 0, memory_.rkey };
		require(!end_.post(wr), "the request is taken");
		expect_completion(end_.send_cq(), IBV_WC_REM_OP_ERR, 102);
		require(end_.state() == IBV_QPS_ERR, "the QP is in error");
		tell(ending());
	}

	/* The name of the event that ends the connection. */
	std::string ending()
	{
		Event event = next_event(channel_.get(), 15000);

		require(event.type >= 0, "an event tells that the connection has ended");
		return rdma_event_str(static_cast<rdma_cm_event_type>(event.type));
	}

	void close()
	{
		if (rdma_disconnect(end_.id()))
			fail("rdma_disconnect", errno);
		expect_event(channel_.get(), RDMA_CM_EVENT_DISCONNECTED);
	}

private:
	const Options &options_;
	EventChannel channel_;
	End end_;
	Buffer out_;
	Buffer in_;
	Buffer message_;
	Memory memory_ = {};
};

std::list<Call> open_calls(const Options &options)
{
	std::list<Call> calls;

	for (unsigned int i = 0; i < options.connections; i++) {
		calls.emplace_back(options);
		calls.back().round(i);
	}
	tell("data");
	return calls;
}

void call_and_close(const Options &options)
{
	for (unsigned int time = 0; time < options.times; time++)
		for (Call &call : open_calls(options))
			call.close();
}

void call_for_atomic(const Options &options)
{
	for (Call &call : open_calls(options))
		call.expect_atomic_refused();
}

/* Runs a thread per connection. Each must end with an event, even if its requests failed before. */
void call_endlessly(const Options &options)
{
	auto calls = open_calls(options);
	std::atomic<unsigned int> without_event = 0;

	{
		std::list<std::jthread> threads;

		for (Call &call : calls)
			threads.emplace_back([&] {
				try {
					for (std::uint32_t seed = 0;; seed++)
						call.round(seed);
				} catch (const std::exception &error) {
					tell(error.what());
				}
				try {
					tell(call.ending());
				} catch (const std::exception &error) {
					tell(error.what());
					without_event++;
				}
			});
	}
	require(!without_event, "every connection ends with an event");
}

[[noreturn]] void usage()
{
	std::cerr
		<< "usage: peer [--connections N] [--times N] [--size BYTES] [--endless]\n"
		   "            [--patience SECONDS] [--no-atomics] listen|connect ADDRESS PORT\n";
	std::exit(2);
}

Options parse(int argc, char **argv)
{
	enum { connections, times, size, endless, patience, no_atomics };
	const option known[] = { { "connections", required_argument, nullptr, connections },
				 { "times", required_argument, nullptr, times },
				 { "size", required_argument, nullptr, size },
				 { "endless", no_argument, nullptr, endless },
				 { "patience", required_argument, nullptr, patience },
				 { "no-atomics", no_argument, nullptr, no_atomics },
				 { nullptr, 0, nullptr, 0 } };
	Options options;

	for (int got; (got = getopt_long(argc, argv, "", known, nullptr)) >= 0;) {
		switch (got) {
		case connections:
			options.connections = std::stoul(optarg);
			break;
		case times:
			options.times = std::stoul(optarg);
			break;
		case size:
			options.size = std::stoul(optarg);
			break;
		case endless:
			options.endless = true;
			break;
		case patience:
			options.patience = std::stoi(optarg);
			break;
		case no_atomics:
			options.no_atomics = true;
			break;
		default:
			usage();
		}
	}
	if (argc - optind != 3)
		usage();
	options.role = argv[optind];
	options.address = argv[optind + 1];
	options.port = static_cast<std::uint16_t>(std::stoul(argv[optind + 2]));
	return options;
}

} /* namespace */

int main(int argc, char **argv)
{
	try {
		Options options = parse(argc, argv);

		if (options.role == "listen")
			Server(options).run();
		else if (options.role != "connect")
			usage();
		else if (options.endless)
			call_endlessly(options);
		else if (options.no_atomics)
			call_for_atomic(options);
		else
			call_and_close(options);
	} catch (const std::exception &error) {
		tell(error.what());
		return 1;
	}
	return 0;
}
