/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Calls are delivered in the order in which they were made, and both ends may disconnect. */
#include "cases.hpp"
#include "device.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <deque>
#include <format>
#include <thread>
#include <utility>

using namespace rdma;

namespace
{

constexpr std::uint8_t count = 32;

/* Makes @count calls without waiting in between. The private data of each is its number. */
std::deque<End> call_all(rdma_event_channel *channel, const Listener &listener)
{
	std::deque<End> ends;

	for (unsigned int i = 0; i < count; i++)
		ends.emplace_back(resolve(channel, listener.address()), QpOptions());
	for (std::uint8_t i = 0; i < count; i++)
		ends[i].connect(connection_parameters({ &i, 1 }));
	return ends;
}

/* Returns the next call. Calls that were answered before are established meanwhile, in order. */
Event next_call(rdma_event_channel *channel, const std::deque<End> &answerers,
		std::size_t &established)
{
	Event event = next_event(channel);

	for (; event.type == RDMA_CM_EVENT_ESTABLISHED; event = next_event(channel), established++)
		require(established < answerers.size() && event.id == answerers[established].id(),
			std::format("answer {} is established", established));
	require(event.type == RDMA_CM_EVENT_CONNECT_REQUEST, "a call comes");
	return event;
}

void in_order(const std::string &address)
{
	Listener listener(address);
	EventChannel channel(rdma_create_event_channel());
	std::deque<End> callers = call_all(channel.get(), listener);
	std::deque<End> answerers;
	std::size_t established = 0;

	for (unsigned int i = 0; i < count; i++) {
		Event event = next_call(listener.channel(), answerers, established);

		answerers.emplace_back(Id(event.id), QpOptions());
		require(event.private_data.size() >= 1 && event.private_data[0] == i,
			std::format("call {} comes, not {}", i, event.private_data[0]));
		answerers.back().accept();
	}
	for (unsigned int i = 0; i < count; i++) {
		Event event = expect_event(channel.get(), RDMA_CM_EVENT_ESTABLISHED);

		require(event.id == callers[i].id(), std::format("call {} is answered", i));
	}
}

void many_times(const std::string &address)
{
	for (unsigned int i = 0; i < 5; i++)
		in_order(address);
}

/* The end that is told of the disconnect also disconnects, as rdma_disconnect(3) requires. */
void one_after_the_other(const std::string &address)
{
	Pair pair(address);

	require(!rdma_disconnect(pair.a().id()), "one end disconnects");
	pair.expect_disconnect();
	require(!rdma_disconnect(pair.b().id()), "the other end disconnects, too");
	require(pair.b().state() == IBV_QPS_ERR, "its queue pair stays in error");
}

/* Makes a plain TCP connection to @to, from a port that may be used again. Returns its socket. */
int connect_tcp(const sockaddr *to, sockaddr_storage &from)
{
	socklen_t length = to->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
	int fd = socket(to->sa_family, SOCK_STREAM, 0);
	int yes = 1;

	require(fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) &&
			!bind(fd, reinterpret_cast<sockaddr *>(&from), length) &&
			!connect(fd, to, length) &&
			!getsockname(fd, reinterpret_cast<sockaddr *>(&from), &length),
		"a TCP connection");
	return fd;
}

/* The connection manager does not know which ports TCP uses or has in TIME_WAIT. */
void from_a_port_in_use(const std::string &address)
{
	Listener listener(address);
	sockaddr_storage from = parse_address(address, 0);
	int fd = connect_tcp(listener.address(), from);
	EventChannel channel = create_event_channel();
	End a(resolve(channel.get(), listener.address(), reinterpret_cast<sockaddr *>(&from)),
	      QpOptions());

	a.connect();

	End b(listener.next_request(), QpOptions());

	b.accept();
	expect_event(channel.get(), RDMA_CM_EVENT_ESTABLISHED);
	expect_event(listener.channel(), RDMA_CM_EVENT_ESTABLISHED);
	close(fd);
}

/* Runs a process of another user, which calls with the queue pair of this number. Returns errno. */
int call_as_nobody(const Listener &listener, std::uint32_t qp_num)
{
	int status;
	pid_t child = fork();

	require(child >= 0, "a process");
	if (!child) {
		constexpr uid_t nobody = 65534;
		rdma_conn_param parameters = connection_parameters();

		if (setresuid(nobody, nobody, nobody))
			_exit(errno);
		EventChannel channel(rdma_create_event_channel());
		Id id = resolve(channel.get(), listener.address());

		parameters.qp_num = qp_num;
		_exit(rdma_connect(id.get(), &parameters) ? errno : 0);
	}
	require(waitpid(child, &status, 0) == child && WIFEXITED(status), "the process ends");
	return WEXITSTATUS(status);
}

/* The numbers of queue pairs can be guessed, so they must not be enough to use one. */
void of_another_user(const std::string &address)
{
	Listener listener(address);
	EventChannel channel(rdma_create_event_channel());
	End end(resolve(channel.get(), listener.address()), QpOptions());

	require(call_as_nobody(listener, end.qp()->qp_num) == EINVAL,
		"another user cannot connect it");
	end.connect(); /* its owner can */
	expect_event(listener.channel(), RDMA_CM_EVENT_CONNECT_REQUEST);
}

/* Creates and destroys queue pairs, and tells the number of the last one. */
class Maker
{
public:
	explicit Maker(const std::string &address)
		: device_(address), cq_(device_.create_cq(16)), thread_([this] { run(); })
	{
	}
	~Maker()
	{
		ends_ = true;
		thread_.join();
	}

	std::uint32_t last() const { return last_; }

private:
	void run()
	{
		while (!ends_)
			last_ = create_qp(device_.pd(), cq_.get(), { 1, 1, 1, 1, 0 })->qp_num;
	}

	Device device_;
	Cq cq_;
	std::atomic<bool> ends_ = false;
	std::atomic<std::uint32_t> last_ = 0;
	std::thread thread_;
};

/* Calls with queue pairs that another thread creates and destroys meanwhile. */
void called_by_number(const std::string &address)
{
	Listener listener(address);
	EventChannel channel = create_event_channel();
	Id id = resolve(channel.get(), listener.address());
	rdma_conn_param parameters = connection_parameters();
	unsigned int found = 0, missed = 0;
	Maker maker(address);

	for (std::uint32_t i = 0; found < 20 || missed < 20; i++) {
		parameters.qp_num = maker.last() + i % 3;
		if (!rdma_connect(id.get(), &parameters)) {
			require(next_event(channel.get()).type >= 0,
				"the call ends when the queue pair is destroyed");
			id = resolve(channel.get(), listener.address());
			found++;
		} else {
			require(errno == EINVAL, "there is no such queue pair");
			missed++;
		}
	}
}

/* The depths that rdma_connect() and rdma_accept() agreed on, as ibv_query_qp() tells them. */
void require_depths(const End &end, int to_peer, int from_peer, Where where = Where::current())
{
	ibv_qp_init_attr init;
	ibv_qp_attr attr;

	require(!ibv_query_qp(end.qp(), &attr, IBV_QP_CAP, &init), "ibv_query_qp()", where);
	require(attr.max_rd_atomic == to_peer && attr.max_dest_rd_atomic == from_peer,
		std::format("the depths are {} and {}", attr.max_rd_atomic,
			    attr.max_dest_rd_atomic),
		where);
}

void agreed_depths(const std::string &address)
{
	for (auto [a, b] : { std::pair<std::uint8_t, std::uint8_t>{ 5, 7 }, { 16, 1 } }) {
		Pair pair(address, { .ord = a }, { .ord = b });

		require_depths(pair.a(), a, 16);
		require_depths(pair.b(), b, 16);
	}
}

const cases::Case all[] = {
	{ "calls made at once are delivered and answered in order", many_times },
	{ "each end of a connection may disconnect", one_after_the_other },
	{ "a caller whose port has a TCP connection to the listener calls from another port",
	  from_a_port_in_use },
	{ "a user cannot connect the queue pair of another user", of_another_user },
	{ "queue pairs are destroyed while they are connected by number", called_by_number },
	{ "a queue pair tells how many Reads its ends agreed on", agreed_depths },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
