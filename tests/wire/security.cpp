/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* What an open port has to stand: RFC 5042, and section 8.1 of RFC 5040. */
#include "stream.hpp"

#include <sched.h>
#include <sys/klog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <format>
#include <fstream>
#include <list>
#include <set>
#include <thread>

using namespace rdma;
using namespace raw;
using namespace wire;

namespace
{

/* In the kernel's log, all there is. */
std::ptrdiff_t lines_in_the_log()
{
	std::string log(static_cast<std::size_t>(klogctl(10, nullptr, 0)), '\0');
	int size = klogctl(3, log.data(), static_cast<int>(log.size()));

	return size < 0 ? -1 : std::count(log.begin(), log.begin() + size, '\n');
}

/* A figure of /proc/meminfo, in KiB. */
long memory_available()
{
	std::ifstream file("/proc/meminfo");
	std::string name;
	long value = 0;

	while (file >> name >> value && name != "MemAvailable:")
		file.ignore(100, '\n');
	return value;
}

void allow_many_files()
{
	rlimit limit = { 8192, 8192 };

	if (setrlimit(RLIMIT_NOFILE, &limit))
		fail("setrlimit", errno);
}

void stags_cannot_be_guessed(const std::string &address)
{
	Pair pair(address);
	std::vector<std::uint32_t> stags;
	std::set<std::uint32_t> indices, keys;
	unsigned int neighbours = 0, halves = 0;

	for (int i = 0; i < 1000; i++)
		stags.push_back(Buffer(pair.a().pd(), 1).mr()->rkey);
	for (std::size_t i = 0; i < stags.size(); i++) {
		indices.insert(stags[i] >> 8);
		keys.insert(stags[i] & 0xff);
		halves += stags[i] >> 31;
		if (i)
			neighbours += std::abs(static_cast<int>(stags[i] >> 8) -
					       static_cast<int>(stags[i - 1] >> 8)) < 16;
	}
	require(indices.size() > 990, "an index is not soon used again");
	require(keys.size() > 200, "the key octet changes");
	require(halves > 400 && halves < 600, "they are all over the range");
	require(neighbours < 10, "one tells nothing of the next");
}

void one_guess_for_a_connection(const std::string &address)
{
	Responder device(address);
	std::ptrdiff_t before = lines_in_the_log();

	for (std::uint32_t i = 0; i < 200; i++) {
		Peer peer(device.address());

		peer.say(Frame{}.octets());
		device.take_request();
		device.accept();
		peer.hear_frame();
		device.expect_established();
		peer.say(fpdu(Tagged{ .stag = i << 8 }.ulpdu(octets_of(1, 4))));
		require(peer.hear_terminate() == Terminate{ 1, 1, 0 }, "the guess is answered");
		expect_event(device.channel(), RDMA_CM_EVENT_DISCONNECTED);
	}
	require(lines_in_the_log() == before, "the log does not grow");
}

/* The peer writes all the time; what was deregistered stays as it is. */
void deregistered_memory_is_left_alone(const std::string &address, Role role)
{
	for (int i = 0; i < 10; i++) {
		Stream stream(address, role);
		constexpr std::size_t size = 64 * 1024;
		std::vector<std::uint8_t> memory(size);
		Mr mr(ibv_reg_mr(stream.end().pd(), memory.data(), size, Buffer::all_rights));
		std::uint32_t stag = mr->rkey;
		std::atomic<bool> is_over = false;
		std::thread writer([&] {
			auto to = reinterpret_cast<std::uint64_t>(memory.data());
			Octets octets =
				fpdu(Tagged{ .stag = stag, .offset = to }.ulpdu(Octets(30000, 1)));

			while (!is_over)
				stream.peer().say(octets);
		});

		while (!std::atomic_ref(memory[0]))
			;
		mr.reset();
		std::ranges::fill(memory, 0);
		expect_event(stream.channel(), RDMA_CM_EVENT_DISCONNECTED);
		is_over = true;
		writer.join();
		require(std::ranges::all_of(memory, [](auto octet) { return !octet; }),
			"nothing is placed after deregistration");
	}
}

void greedy_reads(const std::string &address)
{
	constexpr std::uint32_t size = 64 << 20;
	Stream stream(address, Role::responder, { .memory = size });
	Pair other(address);
	Octets said;

	for (std::uint32_t msn = 1; msn <= 16; msn++)
		said = said + fpdu(stream.application().read_from(0, size).ulpdu(msn));

	long before = memory_available();

	stream.peer().say(said);
	require(stream.peer().hear(1).size() == 1, "the Responses begin");
	other.expect_alive();
	require(before - memory_available() < 64 * 1024,
		"a gigabyte that nobody fetches takes no memory");
	other.expect_alive();
}

void slow_requests(const std::string &address)
{
	allow_many_files();

	Responder device(address);
	std::list<Peer> silent;

	for (int i = 0; i < 1200; i++) {
		silent.emplace_back(device.address());
		silent.back().say(first(Frame{}.octets(), static_cast<std::size_t>(i % 20)));
	}

	auto start = std::chrono::steady_clock::now();
	Peer peer(device.address());

	peer.say(Frame{}.octets());
	device.take_request();
	device.accept();
	require(peer.hear_frame().has_value(), "a good Request is answered");
	require(std::chrono::steady_clock::now() - start < std::chrono::seconds(2),
		"at once, before the others' time is over");
	require(silent.front().is_hung_up(1000), "the oldest have made room");
}

/* Every opcode with every length: it is taken or ends the stream, and nothing else happens. */
void lengths_of_every_opcode(const std::string &address)
{
	Pair bystander(address);
	Responder device(address);

	for (std::uint8_t opcode = 0; opcode < 12; opcode++)
		/* Sends may have any length but the shortest. */
		for (std::size_t size = 0; size < 76;
		     size += opcode >= 3 && opcode <= 6 && size > 20 ? 5 : 1) {
			std::uint8_t rdmap = 0x40 | opcode;
			std::uint32_t queue = opcode == 1 || opcode == 10 ? 1
					      : opcode == 7		  ? 2
					      : opcode == 11		  ? 3
									  : 0;
			Octets ulpdu = opcode == 0 || opcode == 2
					       ? Tagged{ .rdmap = rdmap }.ulpdu(Octets(80))
					       : Untagged{ .rdmap = rdmap, .queue = queue }.ulpdu(
							 Octets(80));
			Peer peer(device.address());

			peer.say(Frame{}.octets());
			device.take_request();
			device.end().receive(device.memory().sge(0, 100), 1);
			device.accept();
			peer.hear_frame();
			device.expect_established();
			peer.say(fpdu(first(ulpdu, size)));
			peer.end();
			expect_event(device.channel(), RDMA_CM_EVENT_DISCONNECTED);
			next_completion(device.end().recv_cq());
		}
	bystander.expect_alive();
}

/* What a command prints. */
std::string output_of(const std::string &command)
{
	std::unique_ptr<FILE, Destroy<pclose>> pipe(popen(command.c_str(), "r"));
	std::string output;
	char line[1000];

	while (pipe && fgets(line, sizeof(line), pipe.get()))
		output += line;
	return output;
}

bool prints(const std::string &command, const std::string &text)
{
	return output_of(command).find(text) != std::string::npos;
}

void idle_streams_can_be_ended(const std::string &address)
{
	Stream stream(address, Role::responder);
	std::string port = std::to_string(ntohs(rdma_get_src_port(stream.end().id())));
	std::string filter = " '( sport = :" + port + " )'";

	require(prints("ss -Htno state established" + filter, "keepalive"),
		"TCP looks whether the peer is alive");
	require(prints("rdma resource show qp", "RTS"), "the QP is listed");
	output_of("ss -HtnK state established" + filter);
	stream.expect_disconnect();
}

void flood_of_nothing(const std::string &address, Role role)
{
	Stream stream(address, role);
	Pair other(address);
	std::ptrdiff_t before = lines_in_the_log();
	Octets nothing = fpdu(Tagged{}.ulpdu({})), said;

	for (int i = 0; i < 1000; i++)
		said = said + nothing;
	for (int i = 0; i < 20; i++)
		stream.peer().say(said);
	other.expect_alive();
	stream.expect_alive();
	require(lines_in_the_log() == before, "the log does not grow");
}

void limits_of_pinned_memory(const std::string &address)
{
	Pair pair(address);
	rlimit limit = { 64 * 1024, 64 * 1024 };

	if (setrlimit(RLIMIT_MEMLOCK, &limit) || setgid(65534) || setuid(65534))
		fail("becoming nobody", errno);

	std::vector<std::uint8_t> memory(1 << 20);
	Mr small(ibv_reg_mr(pair.a().pd(), memory.data(), 4096, Buffer::all_rights));
	Mr large(ibv_reg_mr(pair.a().pd(), memory.data(), memory.size(), Buffer::all_rights));

	require(small != nullptr, "a little memory can be registered");
	require(large == nullptr && errno == ENOMEM, "more than RLIMIT_MEMLOCK cannot");
}

void other_namespaces(const std::string &address)
{
	Responder device(address);

	if (unshare(CLONE_NEWNET))
		fail("unshare", errno);
	output_of("ip link set lo up && ip address add " + address + " dev lo");
	try {
		Peer peer(device.address());
	} catch (const std::exception &error) {
		require(std::string(error.what()).ends_with("refused"), error.what());
		return;
	}
	fail("another namespace reaches the listener");
}

const cases::Case all[] = {
	{ "SEC-01 STags cannot be guessed", stags_cannot_be_guessed },
	{ "SEC-02 a wrong STag costs a connection, and no line in the log",
	  one_guess_for_a_connection },
	{ "SEC-07 deregistered memory is left alone",
	  in_both_roles<deregistered_memory_is_left_alone> },
	{ "SEC-14 Reads that nobody fetches take no memory", greedy_reads },
	{ "SEC-15 slow Requests keep nobody from connecting", slow_requests },
	{ "SEC-19 every opcode may have any length", lengths_of_every_opcode },
	{ "SEC-21 idle streams can be found and ended", idle_streams_can_be_ended },
	{ "SEC-22 a flood of empty Writes harms nobody", in_both_roles<flood_of_nothing> },
	{ "SEC-23 memory is registered within RLIMIT_MEMLOCK", limits_of_pinned_memory },
	{ "SEC-27 a listener is in its own namespace only", other_namespaces },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
