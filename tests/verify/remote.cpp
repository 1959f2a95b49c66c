/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A side of the programs that is on another machine: one message for each call of a Party. */
#include "remote.hpp"

#include "local.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <type_traits>

namespace verify
{

using namespace rdma;

namespace
{

constexpr std::size_t max_message = 1 << 24;
constexpr timeval patience = { 60, 0 }; /* of a caller, for each answer */

template <typename T>
concept Plain = std::is_trivially_copyable_v<T>;

/* Both machines run the same program, so what is plain has the same octets on both. */
class Writer
{
public:
	template <Plain T>
	Writer &operator<<(const T &value)
	{
		auto *octets = reinterpret_cast<const std::uint8_t *>(&value);

		message_.insert(message_.end(), octets, octets + sizeof(value));
		return *this;
	}
	template <typename T>
	Writer &operator<<(std::span<const T> values)
	{
		*this << static_cast<std::uint32_t>(values.size());
		for (const T &value : values)
			*this << value;
		return *this;
	}
	template <typename T>
	Writer &operator<<(const std::vector<T> &values)
	{
		return *this << std::span<const T>(values);
	}
	Writer &operator<<(const Step &step);
	Writer &operator<<(const Order &order);

	std::vector<std::uint8_t> message_;
};

class Reader
{
public:
	explicit Reader(std::vector<std::uint8_t> message) : message_(std::move(message)) {}

	template <Plain T>
	Reader &operator>>(T &value)
	{
		if (message_.size() - at_ < sizeof(value))
			fail("a message of the other machine is too short");
		std::memcpy(&value, message_.data() + at_, sizeof(value));
		at_ += sizeof(value);
		return *this;
	}
	template <typename T>
	Reader &operator>>(std::vector<T> &values)
	{
		values.resize(get<std::uint32_t>());
		for (T &value : values)
			*this >> value;
		return *this;
	}
	Reader &operator>>(Step &step);
	Reader &operator>>(Order &order);

	template <typename T>
	T get()
	{
		T value;

		*this >> value;
		return value;
	}

private:
	std::vector<std::uint8_t> message_;
	std::size_t at_ = 0;
};

/* Calls a function with each field of a step. */
void each_field(auto &step, auto field)
{
	field(step.act);
	field(step.fault);
	field(step.side);
	field(step.qp);
	field(step.thread);
	field(step.signaled);
	field(step.fenced);
	field(step.solicited);
	field(step.inlined);
	field(step.extended);
	field(step.chained);
	field(step.zero_based);
	field(step.window);
	field(step.pieces);
	field(step.region);
	field(step.offset);
	field(step.access);
	field(step.operand);
	field(step.swap);
}

Writer &Writer::operator<<(const Step &step)
{
	each_field(step, [this](const auto &value) { *this << value; });
	return *this;
}

Reader &Reader::operator>>(Step &step)
{
	each_field(step, [this](auto &value) { *this >> value; });
	return *this;
}

Writer &Writer::operator<<(const Order &order)
{
	return *this << order.step << order.seq << order.wr_id << order.rkey << order.part
		     << order.zero_based;
}

Reader &Reader::operator>>(Order &order)
{
	return *this >> order.step >> order.seq >> order.wr_id >> order.rkey >> order.part >>
	       order.zero_based;
}

/* A socket at an address, which is bound or connected to it by @how. */
int open_socket(const std::string &address, std::uint16_t port,
		int (*how)(int, const sockaddr *, socklen_t), const char *what)
{
	sockaddr_storage at = parse_address(address, port);
	const int fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const int on = 1;

	if (fd < 0)
		fail("socket", errno);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (how(fd, reinterpret_cast<sockaddr *>(&at), sizeof(at))) {
		const int err = errno;

		close(fd);
		fail(what, err);
	}
	return fd;
}

} /* namespace */

/*
 * The connection
 */

Control::~Control()
{
	close(fd_);
}

void Control::send(std::span<const std::uint8_t> message)
{
	const auto length = static_cast<std::uint32_t>(message.size());
	std::vector<std::uint8_t> all(sizeof(length) + length);

	std::memcpy(all.data(), &length, sizeof(length));
	std::ranges::copy(message, all.begin() + sizeof(length));
	for (std::size_t done = 0; done < all.size();) {
		const ssize_t sent =
			::send(fd_, all.data() + done, all.size() - done, MSG_NOSIGNAL);

		if (sent < 0)
			fail("the other machine cannot be asked", errno);
		done += static_cast<std::size_t>(sent);
	}
}

bool Control::fill(std::span<std::uint8_t> octets)
{
	while (!octets.empty()) {
		const ssize_t got = recv(fd_, octets.data(), octets.size(), 0);

		if (got < 0)
			fail("the other machine does not answer", errno);
		if (!got)
			return false;
		octets = octets.subspan(static_cast<std::size_t>(got));
	}
	return true;
}

std::vector<std::uint8_t> Control::receive()
{
	std::uint8_t head[sizeof(std::uint32_t)];
	std::uint32_t length;

	if (!fill(head))
		return {};
	std::memcpy(&length, head, sizeof(length));
	require(length && length <= max_message, "a message has a possible length");

	std::vector<std::uint8_t> message(length);

	if (!fill(message))
		fail("the other machine is gone");
	return message;
}

/*
 * Asking
 */

enum class Ask : std::uint8_t {
	begin,
	listen,
	answer,
	await_connection,
	meet,
	end,
	post,
	post_receive,
	resize,
	fill,
	poll,
	disconnect,
	await_end,
	memory,
	check_guards,
};

static int call_control(const std::string &address, std::uint16_t port)
{
	const int fd = open_socket(address, port, ::connect, "the other machine is called");

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return fd;
}

Remote::Remote(const std::string &address, std::uint16_t port)
	: control_(call_control(address, port))
{
}

/* The answer begins with an octet that says whether the call has thrown; then the rest is its text. */
template <typename... Words>
std::vector<std::uint8_t> Remote::ask(Ask what, const Words &...words)
{
	std::lock_guard guard(mutex_);
	Writer request;

	request << what;
	((void)(request << words), ...);
	control_.send(request.message_);

	std::vector<std::uint8_t> answer = control_.receive();

	if (answer.empty())
		fail("the other machine has ended");
	const bool threw = answer[0];

	answer.erase(answer.begin());
	if (threw)
		throw Mismatch("on the other machine: " +
			       std::string(answer.begin(), answer.end()));
	return answer;
}

Keys Remote::begin(const Setup &setup)
{
	return Reader(ask(Ask::begin, setup)).get<Keys>();
}

std::uint16_t Remote::listen()
{
	return Reader(ask(Ask::listen)).get<std::uint16_t>();
}

void Remote::call(std::uint16_t)
{
	fail("the other machine does not call");
}

void Remote::answer()
{
	ask(Ask::answer);
}

void Remote::await_connection()
{
	ask(Ask::await_connection);
}

void Remote::meet(const Keys &peer)
{
	ask(Ask::meet, peer);
}

/* A connection that is lost makes the next program fail. */
void Remote::end() noexcept
{
	try {
		ask(Ask::end);
	} catch (const std::exception &) {
	}
}

void Remote::post(std::span<const Order> orders)
{
	ask(Ask::post, orders);
}

void Remote::post_receive(const Order &order)
{
	ask(Ask::post_receive, order);
}

void Remote::resize(std::uint32_t entries)
{
	ask(Ask::resize, entries);
}

void Remote::fill(const Step &step)
{
	ask(Ask::fill, step);
}

std::vector<Arrival> Remote::poll()
{
	return Reader(ask(Ask::poll)).get<std::vector<Arrival>>();
}

void Remote::disconnect(std::uint32_t qp)
{
	ask(Ask::disconnect, qp);
}

void Remote::await_end(std::uint32_t qp)
{
	ask(Ask::await_end, qp);
}

std::span<const std::uint8_t> Remote::memory(std::uint32_t region, std::uint32_t offset,
					     std::uint32_t length)
{
	memory_ = Reader(ask(Ask::memory, region, offset, length)).get<std::vector<std::uint8_t>>();
	require(memory_.size() == length, "the other machine tells all of the memory");
	return memory_;
}

void Remote::check_guards()
{
	ask(Ask::check_guards);
}

/*
 * Answering
 */

static void answer_to(Party &party, Reader &request, Writer &answer)
{
	switch (request.get<Ask>()) {
	case Ask::begin:
		answer << party.begin(request.get<Setup>());
		break;
	case Ask::listen:
		answer << party.listen();
		break;
	case Ask::answer:
		party.answer();
		break;
	case Ask::await_connection:
		party.await_connection();
		break;
	case Ask::meet:
		party.meet(request.get<Keys>());
		break;
	case Ask::end:
		party.end();
		break;
	case Ask::post:
		party.post(request.get<std::vector<Order>>());
		break;
	case Ask::post_receive:
		party.post_receive(request.get<Order>());
		break;
	case Ask::resize:
		party.resize(request.get<std::uint32_t>());
		break;
	case Ask::fill:
		party.fill(request.get<Step>());
		break;
	case Ask::poll:
		answer << party.poll();
		break;
	case Ask::disconnect:
		party.disconnect(request.get<std::uint32_t>());
		break;
	case Ask::await_end:
		party.await_end(request.get<std::uint32_t>());
		break;
	case Ask::memory: {
		const auto [region, offset, length] = request.get<std::array<std::uint32_t, 3>>();

		answer << party.memory(region, offset, length);
		break;
	}
	case Ask::check_guards:
		party.check_guards();
		break;
	}
}

static std::vector<std::uint8_t> answer_to(Party &party, std::vector<std::uint8_t> message)
{
	Reader request(std::move(message));
	Writer answer;

	answer << false;
	try {
		answer_to(party, request, answer);
	} catch (const std::exception &error) {
		const std::string what = error.what();

		answer.message_ = { true };
		answer.message_.insert(answer.message_.end(), what.begin(), what.end());
	}
	return answer.message_;
}

void serve(const std::string &address, std::uint16_t port)
{
	Local party(B, address);
	const int listener = open_socket(address, port, ::bind, "bind");

	if (::listen(listener, 1))
		fail("listen", errno);
	std::cout << "listening\n" << std::flush;

	Control control(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));

	close(listener);
	for (;;) {
		std::vector<std::uint8_t> request = control.receive();

		if (request.empty())
			return;
		control.send(answer_to(party, std::move(request)));
	}
}

} /* namespace verify */
