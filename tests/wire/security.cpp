/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Attacks on an open port: RFC 5042, and RFC 5040 section 8.1. */
#include "stream.hpp"

#include <sched.h>
#include <sys/klog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <format>
#include <fstream>
#include <iostream>
#include <list>
#include <set>
#include <thread>

using namespace rdma;
using namespace raw;
using namespace wire;

namespace
{

/* The number of lines in the kernel's log. */
std::ptrdiff_t lines_in_the_log()
{
	std::string log(static_cast<std::size_t>(klogctl(10, nullptr, 0)), '\0');
	int size = klogctl(3, log.data(), static_cast<int>(log.size()));

	return size < 0 ? -1 : std::count(log.begin(), log.begin() + size, '\n');
}

/* MemAvailable of /proc/meminfo, in KiB. */
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
	require(indices.size() > 990, "indices are not used again soon");
	require(keys.size() > 200, "the key octet changes");
	require(halves > 400 && halves < 600, "STags are spread over the whole range");
	require(neighbours < 10, "an STag does not tell the next one");
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
		require(peer.hear_terminate() == Terminate{ 1, 1, 0 }, "the guess ends the stream");
		expect_event(device.channel(), RDMA_CM_EVENT_DISCONNECTED);
	}
	/* It tells once an hour of each cause. */
	require(lines_in_the_log() - before <= 1, "the log does not grow");
}

/* The peer writes all the time. After the deregistration the memory must not change. */
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

/* Memory in TCP's buffers, in KiB, in all namespaces. */
long memory_of_tcp()
{
	std::ifstream file("/proc/net/sockstat");
	std::string word;
	long pages = 0;

	while (file >> word && word != "TCP:")
		;
	while (file >> word && word != "mem")
		;
	file >> pages;
	return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Used memory without TCP's buffers, which have limits of their own. Only differences count. */
long memory_taken()
{
	return -memory_available() - memory_of_tcp();
}

/* A Read only takes its slot in a queue of fixed size, and memory for the data staged for TCP. */
void greedy_reads(const std::string &address)
{
	constexpr std::uint32_t size = 64 << 20;
	constexpr std::uint32_t reads = 16;
	constexpr std::size_t greedy = 8;
	Stream first(address, Role::responder, { .memory = size });
	std::list<Stream> more;
	std::vector<Stream *> streams = { &first };
	Pair other(address);

	while (streams.size() < greedy)
		streams.push_back(&more.emplace_back(address, Role::responder,
						     Setup{ .qp = { .pd = first.end().pd() } }));
	other.expect_alive();

	long before = memory_taken();

	for (Stream *stream : streams) {
		Octets said;

		for (std::uint32_t msn = 1; msn <= reads; msn++)
			said = said + fpdu(first.application().read_from(0, size).ulpdu(msn));
		stream->peer().say(said);
	}
	for (Stream *stream : streams)
		require(stream->peer().hear(1).size() == 1, "the Responses begin");
	for (int i = 0; i < 10; i++)
		other.expect_alive();

	long taken = memory_taken() - before;

	std::cout << std::format("{} Reads of 64 MiB take {} KiB\n", greedy * reads, taken);
	require(taken < static_cast<long>(greedy * reads * 128),
		"each Read of 64 MiB takes less than 128 KiB");
}

/* Peers that send their Requests one octet at a time, and call again when they are hung up on. */
class Crawlers
{
public:
	Crawlers(const Responder &device, std::size_t count)
		: device_(device), request_(Frame{}.octets())
	{
		for (std::size_t i = 0; i < count; i++)
			call();
	}

	/* Each peer sends one more octet. */
	void crawl()
	{
		for (std::size_t count = all_.size(); count; count--) {
			Crawler one = std::move(all_.front());

			all_.pop_front();
			if (one.peer.hears_nothing(0) && one.said + 1 < request_.size()) {
				one.peer.say(first(after(request_, one.said++), 1));
				all_.push_back(std::move(one));
			} else {
				call();
			}
		}
	}

	bool oldest_is_hung_up() { return all_.front().peer.is_hung_up(); }

private:
	struct Crawler {
		Peer peer;
		std::size_t said;
	};

	void call() { all_.push_back({ Peer(device_.address()), 0 }); }

	const Responder &device_;
	Octets request_;
	std::list<Crawler> all_;
};

/* How long a good client waits for its Reply, including rdma_accept(). */
std::chrono::milliseconds time_of_a_call(Responder &device)
{
	auto start = std::chrono::steady_clock::now();
	Peer peer(device.address());

	peer.say(Frame{}.octets());
	device.take_request();
	device.accept();
	require(peer.hear_frame().has_value(), "a good Request is answered");
	device.expect_established();

	auto end = std::chrono::steady_clock::now();

	peer.abort();
	expect_event(device.channel(), RDMA_CM_EVENT_DISCONNECTED);
	return std::chrono::duration_cast<std::chrono::milliseconds>(end - start);
}

/* More callers than the device keeps half open: it hangs up on the oldest before their deadline. */
void slow_requests(const std::string &address)
{
	using namespace std::chrono_literals;

	allow_many_files();

	Responder device(address);
	Crawlers crawlers(device, 1200);

	require(crawlers.oldest_is_hung_up(), "the oldest is hung up on");

	std::atomic<bool> is_over = false;
	std::thread flood([&] {
		while (!is_over)
			crawlers.crawl();
	});
	std::array<std::chrono::milliseconds, 20> times;

	std::ranges::generate(times, [&] { return time_of_a_call(device); });
	is_over = true;
	flood.join();
	std::ranges::sort(times);

	/* A slow caller has five seconds to complete its Request. On a busy machine, a single call
	 * may take long without any of them.
	 */
	const auto usual = times[times.size() / 2];

	std::cout << std::format("a call took {} ms, the longest of {} took {} ms\n", usual.count(),
				 times.size(), times.back().count());
	require(usual < 3s, "a good caller does not wait for the slow ones");
}

/* The expected result of one segment. */
struct Outcome {
	std::optional<Terminate> answer = {};
	std::optional<std::uint32_t> delivered = {}; /* length of the receive */
	bool response = false;
};

constexpr Terminate too_short = { 2, 0, 3 }, wrong_length = { 0, 2, 255 };

/* The outcome for a segment that must have exactly this length. */
Outcome of_fixed_length(std::size_t size, std::size_t length, Outcome exact)
{
	return size < length   ? Outcome{ too_short }
	       : size > length ? Outcome{ wrong_length }
			       : exact;
}

/* The outcome for a segment with this opcode and length. It is the first of its queue and has an
 * invalid STag; all else is right.
 */
Outcome outcome_of(unsigned int opcode, std::size_t size)
{
	bool tagged = opcode == 0 || opcode == 2;
	std::size_t header = tagged ? 14 : 18;

	if (opcode == 7 && size >= 2)
		return {}; /* a Terminate ends the stream, well-formed or not, and is not answered */
	if (size < header)
		return { too_short };
	switch (opcode) {
	case 0:
		return size == header ? Outcome{} : Outcome{ Terminate{ 1, 1, 0 } };
	case 1:
		return of_fixed_length(size, 46, { .response = true });
	case 3:
	case 5:
		return { .delivered = size - header };
	case 4:
	case 6:
		return { Terminate{ 0, 2, 9 } };
	case 8:
	case 9:
		return size == 26 ? Outcome{ .delivered = 0 } : Outcome{ wrong_length };
	case 10:
		return of_fixed_length(size, 70, { Terminate{ 0, 1, 0 } });
	case 11:
		return of_fixed_length(size, 30, { Terminate{ 0, 2, 6 } });
	default: /* a Read Response without a request */
		return { Terminate{ 0, 2, 6 } };
	}
}

Octets segment_of(unsigned int opcode, std::size_t size)
{
	std::uint8_t rdmap = static_cast<std::uint8_t>(0x40 | opcode);
	std::uint32_t queue = opcode == 1 || opcode == 10 ? 1
			      : opcode == 7		  ? 2
			      : opcode == 11		  ? 3
							  : 0;

	return first(opcode == 0 || opcode == 2
			     ? Tagged{ .rdmap = rdmap }.ulpdu(Octets(80))
			     : Untagged{ .rdmap = rdmap, .queue = queue }.ulpdu(Octets(80)),
		     size);
}

void expect_outcome(Responder &device, Peer &peer, const Outcome &expected)
{
	if (expected.response) {
		auto heard = peer.hear_fpdu();

		require(heard && heard->opcode() == 2 && heard->payload().empty(),
			"it is answered with a Response");
	}
	if (expected.answer) {
		auto heard = peer.hear_terminate();

		require(heard.has_value(), "a Terminate comes, then the end");
		require(*heard == *expected.answer, "the Terminate is " + to_string(*heard));
	} else {
		peer.end();
		require(peer.is_hung_up(), "no Terminate comes before the end");
	}
	expect_event(device.channel(), RDMA_CM_EVENT_DISCONNECTED);

	ibv_wc wc = next_completion(device.end().recv_cq());

	require(wc.status == (expected.delivered ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR),
		std::format("the receive completes with \"{}\"", ibv_wc_status_str(wc.status)));
	require(!expected.delivered || wc.byte_len == *expected.delivered, "its length is right");
	require(device.memory().is_zero(), "memory has only zeros");
}

/* Sends one segment over a new connection and checks its outcome. */
void expect_outcome(Responder &device, unsigned int opcode, std::size_t size)
{
	Peer peer(device.address());

	peer.say(Frame{}.octets());
	device.take_request();
	device.end().receive(device.memory().sge(0, 100), 1);
	device.accept();
	peer.hear_frame();
	device.expect_established();
	peer.say(fpdu(segment_of(opcode, size)));
	try {
		expect_outcome(device, peer, outcome_of(opcode, size));
	} catch (const std::exception &error) {
		fail(std::format("opcode {} with {} octets: {}", opcode, size, error.what()));
	}
}

/* Sends every opcode with every length. Each is taken, or ends the stream with the right error. */
void lengths_of_every_opcode(const std::string &address)
{
	Pair bystander(address);
	Responder device(address);

	for (unsigned int opcode = 0; opcode < 12; opcode++)
		/* All lengths of a Send but the shortest are alike, so test every fifth. */
		for (std::size_t size = 0; size < 76;
		     size += opcode >= 3 && opcode <= 6 && size > 20 ? 5 : 1)
			expect_outcome(device, opcode, size);
	bystander.expect_alive();
}

/* The output of a command. */
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

	require(prints("ss -Htno state established" + filter, "keepalive"), "TCP keepalive is on");
	require(prints("rdma resource show qp", "RTS"), "the QP is listed");
	output_of("ss -HtnK state established" + filter);
	stream.expect_disconnect();
}

/* The peer keeps sending the same octets. */
class Flood
{
public:
	Flood(Peer &peer, const Octets &said)
		: thread_([&peer, said](const std::stop_token &stop) {
			  while (!stop.stop_requested())
				  peer.say(said);
		  })
	{
	}

private:
	std::jthread thread_;
};

/* How long the device takes for ten thousand of these Writes. */
std::chrono::steady_clock::duration time_of(Stream &stream, const Tagged &write, std::size_t size,
					    std::uint32_t msn)
{
	Octets one = fpdu(write.ulpdu(Octets(size))), said;

	for (int i = 0; i < 1000; i++)
		said = said + one;

	auto start = std::chrono::steady_clock::now();

	for (int i = 0; i < 10; i++)
		stream.peer().say(said);
	stream.expect_alive(msn);
	return std::chrono::steady_clock::now() - start;
}

/* Empty Writes cost no more than Writes with data, and do not disturb other connections. */
void flood_of_nothing(const std::string &address, Role role)
{
	using Times = std::array<std::chrono::steady_clock::duration, 5>;
	Stream stream(address, role);
	Pair other(address);
	std::ptrdiff_t before = lines_in_the_log();
	Times nothing, something;

	for (std::uint32_t i = 0; i < 5; i++) {
		nothing[i] = time_of(stream, {}, 0, 2 * i + 1);
		something[i] = time_of(stream, stream.application().write_to(), 4, 2 * i + 2);
	}
	require(std::ranges::min(nothing) < 2 * std::ranges::min(something),
		std::format("empty Writes take {}, others take {}", std::ranges::min(nothing),
			    std::ranges::min(something)));
	{
		Flood flood(stream.peer(), fpdu(Tagged{}.ulpdu({})));

		for (int i = 0; i < 10; i++)
			other.expect_alive();
	}
	stream.expect_alive(11);
	/* It tells once an hour of each cause. */
	require(lines_in_the_log() - before <= 1, "the log does not grow");
}

/* Input behind an error is ignored: there is one answer, one event, and no line in the log. */
void flood_of_errors(const std::string &address, Role role)
{
	Stream stream(address, role);
	Pair other(address);
	std::ptrdiff_t before = lines_in_the_log();
	Octets wrong = fpdu(Tagged{ .stag = 0x1234 }.ulpdu(octets_of(1, 4))), said;

	for (int i = 0; i < 1000; i++)
		said = said + wrong;
	stream.end().receive(stream.memory().sge(0, 8), 1);
	{
		Flood flood(stream.peer(), said);

		stream.expect_disconnect();
		other.expect_alive();
	}
	expect_completion(stream.end().recv_cq(), IBV_WC_WR_FLUSH_ERR, 1);
	require(next_event(stream.channel(), 200).type < 0, "the application gets one event");
	require(stream.memory().is_zero(), "nothing is placed");
	/* It tells once an hour of each cause. */
	require(lines_in_the_log() - before <= 1, "the log does not grow");
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

	require(small != nullptr, "one page can be registered");
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
	{ "SEC-02 wrong STags cost their connections, and one line in the log",
	  one_guess_for_a_connection },
	{ "SEC-07 deregistered memory is left alone",
	  in_both_roles<deregistered_memory_is_left_alone> },
	{ "SEC-14 Reads whose Responses are not taken need no memory", greedy_reads },
	{ "SEC-15 slow Requests do not keep others from connecting", slow_requests },
	{ "SEC-19 every opcode is checked at every length", lengths_of_every_opcode },
	{ "SEC-21 idle streams can be found and ended", idle_streams_can_be_ended },
	{ "SEC-22 a flood of empty Writes harms no other connection",
	  in_both_roles<flood_of_nothing> },
	{ "SEC-22 a flood of errors is reported as one error", in_both_roles<flood_of_errors> },
	{ "SEC-23 memory is registered within RLIMIT_MEMLOCK", limits_of_pinned_memory },
	{ "SEC-27 a listener is in its own namespace only", other_namespaces },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
