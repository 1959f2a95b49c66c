/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A BPF program of a control group may put each TCP socket into a sockmap, as service meshes do. A
 * sockmap replaces how TCP closes a socket, and needs the socket's pointer to its owner for that.
 */
#include "../wire/stream.hpp"
#include "cases.hpp"
#include "control_group.hpp"
#include "device.hpp"

#include <fcntl.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <format>
#include <optional>
#include <span>
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

/* What the program has seen. */
struct Seen {
	std::int32_t results; /* the sum of what bpf_sock_map_update() returned: 0 or -EBUSY */
	std::int32_t runs;

	int taken() const { return runs - results / -EBUSY; }
};

int load_program(std::span<const bpf_insn> program)
{
	bpf_attr attributes = {};

	attributes.prog_type = BPF_PROG_TYPE_SOCK_OPS;
	attributes.insns = pointer(program.data());
	attributes.insn_cnt = static_cast<std::uint32_t>(program.size());
	attributes.license = pointer("GPL");
	return bpf(BPF_PROG_LOAD, attributes);
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

/* Puts this process into a control group, whose program puts each socket into a sockmap when TCP
 * reports the event for it.
 */
class Mesh
{
public:
	explicit Mesh(std::uint32_t event) { attach(Fd(load(event), "the BPF program is loaded")); }
	Mesh(const Mesh &) = delete;

	/* The program goes with the control group. */
	void attach(const Fd &program)
	{
		bpf_attr attributes = {};

		attributes.target_fd = static_cast<std::uint32_t>(int{ directory_ });
		attributes.attach_bpf_fd = static_cast<std::uint32_t>(int{ program });
		attributes.attach_type = BPF_CGROUP_SOCK_OPS;
		attributes.attach_flags = BPF_F_ALLOW_MULTI;
		require(!bpf(BPF_PROG_ATTACH, attributes), "the BPF program is attached");
	}

	Seen seen() const
	{
		bpf_attr attributes = {};
		std::uint32_t key = 0;
		Seen seen = {};

		attributes.map_fd = static_cast<std::uint32_t>(int{ results_ });
		attributes.key = pointer(&key);
		attributes.value = pointer(&seen);
		require(!bpf(BPF_MAP_LOOKUP_ELEM, attributes), "the result is read");
		return seen;
	}

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
			bpf_insn{ BPF_LD | BPF_IMM | BPF_DW, 1, BPF_PSEUDO_MAP_FD, 0, results_ },
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

	ControlGroup group_;
	Fd directory_{ open(group_.path().c_str(), O_RDONLY | O_DIRECTORY), "the control group" };
	Fd sockets_{ create_map(BPF_MAP_TYPE_SOCKMAP, 4), "a sockmap" };
	Fd results_{ create_map(BPF_MAP_TYPE_ARRAY, sizeof(Seen)), "a map of results" };
};

void expect_not_taken(const std::string &address, std::uint32_t event)
{
	Mesh mesh(event);
	Pair pair(address);
	Seen seen = mesh.seen();

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
	const int on = 1;

	mesh.attach(Fd(load_sharing(), "the sharing program is loaded"));

	Listener listener(address);
	std::optional<Fd> other(std::in_place, socket(AF_INET, SOCK_STREAM, 0), "a TCP socket");

	require(!setsockopt(*other, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) &&
			!bind(*other, listener.address(), sizeof(sockaddr_in)) &&
			!listen(*other, 64),
		"the port is shared");
	for (unsigned int i = 0; i < 64; i++)
		peers.emplace_back(listener.address());

	Seen seen = mesh.seen();

	require(seen.runs == 64 && seen.taken(), "the sockmap takes children of the other socket");
	other.reset();

	auto ended =
		std::ranges::count_if(peers, [](raw::Peer &peer) { return peer.is_hung_up(50); });

	require(ended == seen.taken(), std::format("{} of {} are reset", ended, seen.taken()));
}

const cases::Case all[] = {
	{ "no sockmap takes a connection that is made", caller_is_not_taken },
	{ "no sockmap takes a connection that is accepted", callee_is_not_taken },
	{ "a listener does not take children of another socket", children_of_another },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
