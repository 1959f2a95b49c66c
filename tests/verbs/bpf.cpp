/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* BPF programs of a control group, which a container may load, do no harm.
 *
 * A program may put each TCP socket into a sockmap, as service meshes do. A sockmap replaces how TCP
 * closes a socket, and needs the socket's pointer to its owner for that. A program may also set
 * options of a socket, at any of the moments when TCP runs it.
 */
#include "../wire/stream.hpp"
#include "cases.hpp"
#include "control_group.hpp"
#include "device.hpp"

#include <fcntl.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <format>
#include <optional>
#include <span>
#include <thread>
#include <vector>

using namespace rdma;

namespace
{

int bpf(bpf_cmd command, bpf_attr attributes)
{
	return static_cast<int>(syscall(SYS_bpf, command, &attributes, sizeof(attributes)));
}

std::uint64_t pointer(const void *to)
{
	return reinterpret_cast<std::uintptr_t>(to);
}

class Fd
{
public:
	Fd(int fd, const char *what) : fd_(fd) { require(fd >= 0, what); }
	Fd(const Fd &) = delete;
	~Fd() { close(fd_); }

	operator int() const { return fd_; }

private:
	int fd_;
};

int create_map(bpf_map_type type, std::uint32_t value_size)
{
	bpf_attr attributes = {};

	attributes.map_type = type;
	attributes.key_size = 4;
	attributes.value_size = value_size;
	attributes.max_entries = 1;
	return bpf(BPF_MAP_CREATE, attributes);
}

/* A map of one element, which programs use as well. */
template <typename Value>
class Shared
{
public:
	int fd() const { return map_; }

	Value get() const
	{
		Value value = {};

		require(!bpf(BPF_MAP_LOOKUP_ELEM, element(value)), "the map is read");
		return value;
	}

	void set(Value value) const
	{
		require(!bpf(BPF_MAP_UPDATE_ELEM, element(value)), "the map is written");
	}

private:
	bpf_attr element(Value &value) const
	{
		bpf_attr attributes = {};

		attributes.map_fd = static_cast<std::uint32_t>(int{ map_ });
		attributes.key = pointer(&key_);
		attributes.value = pointer(&value);
		return attributes;
	}

	Fd map_{ create_map(BPF_MAP_TYPE_ARRAY, sizeof(Value)), "a map" };
	std::uint32_t key_ = 0;
};

int load_program(std::span<const bpf_insn> program, bpf_prog_type type = BPF_PROG_TYPE_SOCK_OPS,
		 bpf_attach_type attach = BPF_CGROUP_SOCK_OPS)
{
	bpf_attr attributes = {};

	attributes.prog_type = type;
	attributes.expected_attach_type = attach;
	attributes.insns = pointer(program.data());
	attributes.insn_cnt = static_cast<std::uint32_t>(program.size());
	attributes.license = pointer("GPL");
	return bpf(BPF_PROG_LOAD, attributes);
}

/* if (bpf_get_current_pid_tgid() >> 32 == getpid())
 *	address->user_port = htons(port);
 * return 1;
 */
int load_redirection(std::uint16_t port)
{
	const std::array program = {
		bpf_insn{ BPF_ALU64 | BPF_MOV | BPF_X, 6, 1, 0, 0 },
		bpf_insn{ BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_get_current_pid_tgid },
		bpf_insn{ BPF_ALU64 | BPF_RSH | BPF_K, 0, 0, 0, 32 },
		bpf_insn{ BPF_JMP | BPF_JNE | BPF_K, 0, 0, 2, getpid() },
		bpf_insn{ BPF_ALU64 | BPF_MOV | BPF_K, 1, 0, 0, htons(port) },
		bpf_insn{ BPF_STX | BPF_MEM | BPF_W, 6, 1, offsetof(bpf_sock_addr, user_port), 0 },
		bpf_insn{ BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 1 },
		bpf_insn{ BPF_JMP | BPF_EXIT, 0, 0, 0, 0 },
	};

	return load_program(program, BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_CGROUP_INET4_CONNECT);
}

/* if (ops->op == BPF_SOCK_OPS_TCP_LISTEN_CB)
 *	bpf_setsockopt(ops, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
 * return 1;
 */
int load_sharing()
{
	const std::array program = {
		bpf_insn{ BPF_LDX | BPF_MEM | BPF_W, 2, 1, offsetof(bpf_sock_ops, op), 0 },
		bpf_insn{ BPF_JMP | BPF_JNE | BPF_K, 2, 0, 7, BPF_SOCK_OPS_TCP_LISTEN_CB },
		bpf_insn{ BPF_ST | BPF_MEM | BPF_W, 10, 0, -4, 1 },
		bpf_insn{ BPF_ALU64 | BPF_MOV | BPF_K, 2, 0, 0, SOL_SOCKET },
		bpf_insn{ BPF_ALU64 | BPF_MOV | BPF_K, 3, 0, 0, SO_REUSEPORT },
		bpf_insn{ BPF_ALU64 | BPF_MOV | BPF_X, 4, 10, 0, 0 },
		bpf_insn{ BPF_ALU64 | BPF_ADD | BPF_K, 4, 0, 0, -4 },
		bpf_insn{ BPF_ALU64 | BPF_MOV | BPF_K, 5, 0, 0, 4 },
		bpf_insn{ BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_setsockopt },
		bpf_insn{ BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 1 },
		bpf_insn{ BPF_JMP | BPF_EXIT, 0, 0, 0, 0 },
	};

	return load_program(program);
}

/* A control group for this process, with programs. */
class Programs
{
public:
	/* The program goes with the control group. */
	void attach(int program, bpf_attach_type type = BPF_CGROUP_SOCK_OPS) const
	{
		Fd loaded(program, "the BPF program is loaded");
		bpf_attr attributes = {};

		attributes.target_fd = static_cast<std::uint32_t>(int{ directory_ });
		attributes.attach_bpf_fd = static_cast<std::uint32_t>(int{ loaded });
		attributes.attach_type = type;
		attributes.attach_flags = BPF_F_ALLOW_MULTI;
		require(!bpf(BPF_PROG_ATTACH, attributes), "the BPF program is attached");
	}

private:
	ControlGroup group_;
	Fd directory_{ open(group_.path().c_str(), O_RDONLY | O_DIRECTORY), "the control group" };
};

/* Puts each socket into a sockmap when TCP reports the event for it. */
class Mesh
{
public:
	explicit Mesh(std::uint32_t event) { programs.attach(load(event)); }

	/* What the program has seen. */
	struct Seen {
		std::int32_t results; /* of bpf_sock_map_update(), 0 or -EBUSY, added up */
		std::int32_t runs;

		int taken() const { return runs - results / -EBUSY; }
	};

	Seen seen() const { return results_.get(); }

	Programs programs;

private:
	/* if (ops->op == event) {
	 *	seen = bpf_map_lookup_elem(results, &zero);
	 *	seen->results += bpf_sock_map_update(ops, sockets, &zero, BPF_ANY);
	 *	seen->runs++;
	 * }
	 * return 1;
	 */
	int load(std::uint32_t event) const
	{
		const std::array program = {
			bpf_insn{ BPF_ALU64 | BPF_MOV | BPF_X, 6, 1, 0, 0 },
			bpf_insn{ BPF_LDX | BPF_MEM | BPF_W, 2, 6, offsetof(bpf_sock_ops, op), 0 },
			bpf_insn{ BPF_JMP | BPF_JNE | BPF_K, 2, 0, 21, static_cast<int>(event) },
			bpf_insn{ BPF_ST | BPF_MEM | BPF_W, 10, 0, -4, 0 },
			bpf_insn{ BPF_LD | BPF_IMM | BPF_DW, 1, BPF_PSEUDO_MAP_FD, 0,
				  results_.fd() },
			bpf_insn{},
			bpf_insn{ BPF_ALU64 | BPF_MOV | BPF_X, 2, 10, 0, 0 },
			bpf_insn{ BPF_ALU64 | BPF_ADD | BPF_K, 2, 0, 0, -4 },
			bpf_insn{ BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem },
			bpf_insn{ BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 14, 0 },
			bpf_insn{ BPF_ALU64 | BPF_MOV | BPF_X, 7, 0, 0, 0 },
			bpf_insn{ BPF_ALU64 | BPF_MOV | BPF_X, 1, 6, 0, 0 },
			bpf_insn{ BPF_LD | BPF_IMM | BPF_DW, 2, BPF_PSEUDO_MAP_FD, 0, sockets_ },
			bpf_insn{},
			bpf_insn{ BPF_ALU64 | BPF_MOV | BPF_X, 3, 10, 0, 0 },
			bpf_insn{ BPF_ALU64 | BPF_ADD | BPF_K, 3, 0, 0, -4 },
			bpf_insn{ BPF_ALU64 | BPF_MOV | BPF_K, 4, 0, 0, BPF_ANY },
			bpf_insn{ BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_sock_map_update },
			bpf_insn{ BPF_LDX | BPF_MEM | BPF_W, 1, 7, offsetof(Seen, results), 0 },
			bpf_insn{ BPF_ALU64 | BPF_ADD | BPF_X, 1, 0, 0, 0 },
			bpf_insn{ BPF_STX | BPF_MEM | BPF_W, 7, 1, offsetof(Seen, results), 0 },
			bpf_insn{ BPF_LDX | BPF_MEM | BPF_W, 1, 7, offsetof(Seen, runs), 0 },
			bpf_insn{ BPF_ALU64 | BPF_ADD | BPF_K, 1, 0, 0, 1 },
			bpf_insn{ BPF_STX | BPF_MEM | BPF_W, 7, 1, offsetof(Seen, runs), 0 },
			bpf_insn{ BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 1 },
			bpf_insn{ BPF_JMP | BPF_EXIT, 0, 0, 0, 0 },
		};

		return load_program(program);
	}

	Fd sockets_{ create_map(BPF_MAP_TYPE_SOCKMAP, 4), "a sockmap" };
	Shared<Seen> results_;
};

/* Sets SO_RCVLOWAT of each accepted socket whenever TCP composes the header of a segment. */
class Doorman
{
public:
	Doorman() { programs_.attach(load()); }

	struct Told {
		std::int32_t octets; /* the value to set, or 0 */
		std::int32_t times;  /* how often it was set */
	};

	void set(std::int32_t octets) const { told_.set({ octets, 0 }); }
	std::int32_t times() const { return told_.get().times; }

private:
	/* if (ops->op == BPF_SOCK_OPS_HDR_OPT_LEN_CB && !ops->args[0]) { // not only for the MSS
	 *	told = bpf_map_lookup_elem(told_, &zero);
	 *	if (told->octets && !bpf_setsockopt(ops, SOL_SOCKET, SO_RCVLOWAT, &told->octets, 4))
	 *		told->times++;
	 * } else if (ops->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB) {
	 *	bpf_sock_ops_cb_flags_set(ops, BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
	 * }
	 * return 1;
	 */
	int load() const
	{
		const std::array program = {
			bpf_insn{ BPF_ALU64 | BPF_MOV | BPF_X, 6, 1, 0, 0 },
			bpf_insn{ BPF_LDX | BPF_MEM | BPF_W, 2, 6, offsetof(bpf_sock_ops, op), 0 },
			bpf_insn{ BPF_JMP | BPF_JNE | BPF_K, 2, 0, 23,
				  BPF_SOCK_OPS_HDR_OPT_LEN_CB },
			bpf_insn{ BPF_LDX | BPF_MEM | BPF_W, 2, 6, offsetof(bpf_sock_ops, args),
				  0 },
			bpf_insn{ BPF_JMP | BPF_JNE | BPF_K, 2, 0, 25, 0 },
			bpf_insn{ BPF_ST | BPF_MEM | BPF_W, 10, 0, -4, 0 },
			bpf_insn{ BPF_LD | BPF_IMM | BPF_DW, 1, BPF_PSEUDO_MAP_FD, 0, told_.fd() },
			bpf_insn{},
			bpf_insn{ BPF_ALU64 | BPF_MOV | BPF_X, 2, 10, 0, 0 },
			bpf_insn{ BPF_ALU64 | BPF_ADD | BPF_K, 2, 0, 0, -4 },
			bpf_insn{ BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem },
			bpf_insn{ BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 18, 0 },
			bpf_insn{ BPF_ALU64 | BPF_MOV | BPF_X, 7, 0, 0, 0 },
			bpf_insn{ BPF_LDX | BPF_MEM | BPF_W, 1, 7, offsetof(Told, octets), 0 },
			bpf_insn{ BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 15, 0 },
			bpf_insn{ BPF_ALU64 | BPF_MOV | BPF_X, 1, 6, 0, 0 },
			bpf_insn{ BPF_ALU64 | BPF_MOV | BPF_K, 2, 0, 0, SOL_SOCKET },
			bpf_insn{ BPF_ALU64 | BPF_MOV | BPF_K, 3, 0, 0, SO_RCVLOWAT },
			bpf_insn{ BPF_ALU64 | BPF_MOV | BPF_X, 4, 7, 0, 0 },
			bpf_insn{ BPF_ALU64 | BPF_MOV | BPF_K, 5, 0, 0, 4 },
			bpf_insn{ BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_setsockopt },
			bpf_insn{ BPF_JMP | BPF_JNE | BPF_K, 0, 0, 8, 0 },
			bpf_insn{ BPF_LDX | BPF_MEM | BPF_W, 1, 7, offsetof(Told, times), 0 },
			bpf_insn{ BPF_ALU64 | BPF_ADD | BPF_K, 1, 0, 0, 1 },
			bpf_insn{ BPF_STX | BPF_MEM | BPF_W, 7, 1, offsetof(Told, times), 0 },
			bpf_insn{ BPF_JMP | BPF_JA, 0, 0, 4, 0 },
			bpf_insn{ BPF_JMP | BPF_JNE | BPF_K, 2, 0, 3,
				  BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB },
			bpf_insn{ BPF_ALU64 | BPF_MOV | BPF_K, 2, 0, 0,
				  BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG },
			bpf_insn{ BPF_ALU64 | BPF_MOV | BPF_X, 1, 6, 0, 0 },
			bpf_insn{ BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_sock_ops_cb_flags_set },
			bpf_insn{ BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 1 },
			bpf_insn{ BPF_JMP | BPF_EXIT, 0, 0, 0, 0 },
		};

		return load_program(program);
	}

	Programs programs_;
	Shared<Told> told_;
};

/* Listens on the port of a listener that shares it. */
int listen_too(const Listener &listener)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	const int on = 1;

	require(fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) &&
			!bind(fd, listener.address(), sizeof(sockaddr_in)) && !listen(fd, 64),
		"the port is shared");
	return fd;
}

void expect_not_taken(const std::string &address, std::uint32_t event)
{
	Mesh mesh(event);
	Pair pair(address);
	Mesh::Seen seen = mesh.seen();

	require(seen.runs == 1 && seen.results == -EBUSY,
		std::format("{} runs, result {}", seen.runs, seen.results));
	pair.expect_alive();
}

/* TCP connects inside of rdma_connect(). */
void caller_is_not_taken(const std::string &address)
{
	expect_not_taken(address, BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB);
}

/* TCP connects before the listener accepts. */
void callee_is_not_taken(const std::string &address)
{
	expect_not_taken(address, BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB);
}

/* A program makes the port of a listener shared. When the other socket of the port is closed, TCP
 * migrates its children to the listener, and a sockmap owns one.
 */
void children_of_another(const std::string &address)
{
	wire::Setting migrate("/proc/sys/net/ipv4/tcp_migrate_req", "1");
	Mesh mesh(BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB);
	std::vector<raw::Peer> peers;

	mesh.programs.attach(load_sharing());

	Listener listener(address);
	std::optional<Fd> other(std::in_place, listen_too(listener), "the port is shared");

	for (unsigned int i = 0; i < 64; i++)
		peers.emplace_back(listener.address());

	Mesh::Seen seen = mesh.seen();

	require(seen.runs == 64 && seen.taken(), "the sockmap takes children of the other socket");
	other.reset();

	auto ended =
		std::ranges::count_if(peers, [](raw::Peer &peer) { return peer.is_hung_up(50); });

	require(ended == seen.taken(), std::format("{} of {} are reset", ended, seen.taken()));
}

/* Keeps all CPUs for the threads of this process, so that hardly any work of the kernel runs beside
 * them.
 */
class Hog
{
public:
	Hog()
	{
		for (unsigned int i = 1; i < std::thread::hardware_concurrency(); i++)
			spinners_.emplace_back([this] {
				become_real_time(true);
				running_++;
				while (!over_)
					;
			});
		while (running_ < spinners_.size())
			std::this_thread::yield();
		become_real_time(true);
	}
	Hog(const Hog &) = delete;
	~Hog()
	{
		over_ = true;
		become_real_time(false);
	}

private:
	static void become_real_time(bool yes)
	{
		sched_param priority = { yes ? 1 : 0 };

		require(!sched_setscheduler(0, yes ? SCHED_FIFO : SCHED_OTHER, &priority),
			"the scheduling policy is set");
	}

	std::atomic<bool> over_ = false;
	std::atomic<std::size_t> running_ = 0;
	std::vector<std::jthread> spinners_;
};

std::vector<raw::Peer> accept_all(int listening)
{
	std::vector<raw::Peer> accepted;
	int fd;

	while ((fd = accept(listening, nullptr, nullptr)) >= 0)
		accepted.emplace_back(fd);
	return accepted;
}

/* The number of sockets that a process hears of while it waits for data of all of them. */
unsigned int count_readable(std::vector<raw::Peer> &accepted, std::vector<raw::Peer> &callers)
{
	Fd epoll(epoll_create1(0), "an epoll set");
	epoll_event event = { EPOLLIN | EPOLLONESHOT, {} };
	const raw::Octets octet = { 1 };
	unsigned int count = 0;

	for (raw::Peer &peer : accepted)
		require(!epoll_ctl(epoll, EPOLL_CTL_ADD, peer.fd(), &event), "epoll_ctl");
	for (raw::Peer &peer : callers)
		peer.say(octet);
	while (epoll_wait(epoll, &event, 1, 1000) == 1)
		count++;
	return count;
}

/* The number of children of a listener that went and were migrated to another socket of the port. */
std::size_t hand_over(const std::string &address)
{
	Mesh mesh(BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB);
	std::vector<raw::Peer> callers;

	mesh.programs.attach(load_sharing());

	std::optional<Listener> listener(std::in_place, address);
	Fd other(listen_too(*listener), "the port is shared");

	{
		Hog hog;

		for (unsigned int i = 0; i < 64; i++)
			callers.emplace_back(listener->address());
		listener.reset();
	}

	std::vector<raw::Peer> accepted = accept_all(other);
	unsigned int readable = count_readable(accepted, callers);

	require(readable == accepted.size(),
		std::format("{} of {} tell of their data", readable, accepted.size()));
	return accepted.size() - static_cast<std::size_t>(mesh.seen().taken());
}

/* The reverse. The children must be like any other socket then, and not call the module. The
 * listener may be quick enough to accept all of them before.
 */
void children_for_another(const std::string &address)
{
	wire::Setting migrate("/proc/sys/net/ipv4/tcp_migrate_req", "1");

	for (unsigned int i = 0; i < 30; i++) {
		if (hand_over(address))
			return;
	}
	fail("no child was migrated", EAGAIN);
}

/* The second call, after a peer has closed the first one without a Reply, is also one of the process
 * and its control group, although the kernel makes it.
 */
void second_call(const std::string &address)
{
	Mesh mesh(BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB);
	wire::Initiator initiator(address);

	for (bool last : { false, true }) {
		raw::Peer peer = initiator.accept();
		auto request = peer.hear_frame();

		require(request.has_value(), "there is a Request");
		if (!last)
			continue;
		peer.say(wire::Initiator::accepting(*request).octets());
		expect_event(initiator.channel(), RDMA_CM_EVENT_ESTABLISHED);
	}

	Mesh::Seen seen = mesh.seen();

	require(seen.runs == 2 && !seen.taken(),
		std::format("the program ran for {} calls, {} taken", seen.runs, seen.taken()));
}

/* A program sends what this process calls to another port. The second call goes there, too. */
void second_call_is_sent_elsewhere(const std::string &address)
{
	Programs programs;
	raw::Acceptor proxy(address);

	programs.attach(load_redirection(proxy.port()), BPF_CGROUP_INET4_CONNECT);

	wire::Initiator initiator(address);

	for (unsigned int i = 0; i < 2; i++)
		require(proxy.accept().hear_frame().has_value(), "there is a Request");
}

/* A Write waits for room at the peer, and a Read Request was not heard of. When there is room again,
 * TCP transmits, and lets the program say that one octet is enough. The device must not answer the
 * Read in the middle of that.
 */
void heard_while_transmitting(const std::string &address)
{
	constexpr std::uint32_t size = 1 << 20;
	Doorman doorman;
	wire::Setup setup = {};

	setup.memory = size;

	wire::Stream stream(address, wire::Role::responder, setup);
	std::uint32_t written = 0;
	bool answered = false;

	doorman.set(1 << 20);
	stream.end().write(stream.memory().sge(0, size), 0, 1);
	std::this_thread::sleep_for(std::chrono::milliseconds(100));
	stream.peer().say(raw::fpdu(stream.application().read_from(0, 8).ulpdu(1)));
	std::this_thread::sleep_for(std::chrono::milliseconds(100));
	require(doorman.times() > 0, "the program sets the option");
	doorman.set(1);
	while (written < size || !answered) {
		raw::Fpdu fpdu = stream.hear();

		if (fpdu.opcode() == 0)
			written += static_cast<std::uint32_t>(fpdu.payload().size());
		else
			answered = answered || fpdu.opcode() == 2;
	}
	require(doorman.times() > 0, "the program sets the option again");
	stream.expect_alive(2);
}

const cases::Case all[] = {
	{ "no sockmap takes a connection that is made", caller_is_not_taken },
	{ "no sockmap takes a connection that is accepted", callee_is_not_taken },
	{ "a listener does not take children of another socket", children_of_another },
	{ "a listener's children are ordinary sockets for another program", children_for_another },
	{ "the second call is made by the control group of the caller", second_call },
	{ "the second call goes where the first one was sent", second_call_is_sent_elsewhere },
	{ "a program has nothing sent while TCP transmits", heard_while_transmitting },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
