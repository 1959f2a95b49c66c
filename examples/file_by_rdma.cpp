/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* file_by_rdma: copies a file to another host, which reads it out of this host's memory.
 *
 *	file_by_rdma serve FILE [PORT]
 *	file_by_rdma fetch SERVER FILE [PORT]
 *
 * The server registers the memory of the file and accepts one caller. Its private data tell the
 * caller where the file is: an STag, an address and a length. The caller fetches it by RDMA Reads,
 * while the server's program sleeps, and sends an empty message when it has everything.
 */
#include <endian.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace
{

constexpr std::uint32_t piece = 1 << 20; /* bytes of a Read */
constexpr std::uint8_t depth = 4;	 /* Reads under way */

/* What an error means here. Others are told by their usual text. */
std::string meaning(int err)
{
	switch (err) {
	case ENODEV:
		return "no RDMA device leads there; does \"rdma link\" show one?";
	case ECONNREFUSED:
		return "nobody listens at this port; does the server run?";
	case ETIMEDOUT:
		return "no answer comes; does a firewall drop the packets?";
	case EADDRINUSE:
		return "another program listens at this port";
	case ENOMEM:
		return "no memory, or more than \"ulimit -l\" allows to register";
	default:
		return std::strerror(err);
	}
}

[[noreturn]] void fail(const std::string &what, const std::string &why)
{
	throw std::runtime_error(what + ": " + why);
}

/* For functions that return 0, or -1 and set errno. */
void check(int ret, const std::string &what)
{
	if (ret)
		fail(what, meaning(errno));
}

template <auto destroy>
struct Destroy {
	void operator()(auto *object) const { destroy(object); }
};

template <typename Object, auto destroy>
using Owner = std::unique_ptr<Object, Destroy<destroy>>;

using Addresses = Owner<rdma_addrinfo, rdma_freeaddrinfo>;
using Id = Owner<rdma_cm_id, rdma_destroy_ep>; /* with its queue pair and completion queues */
using Mr = Owner<ibv_mr, ibv_dereg_mr>;

struct Unmap {
	std::size_t length;
	void operator()(void *memory) const { munmap(memory, length); }
};
using Mapping = std::unique_ptr<void, Unmap>;

/* Where the file is in the server's memory, in the byte order of the network. */
struct [[gnu::packed]] Offer {
	std::uint32_t stag;
	std::uint64_t address;
	std::uint64_t length;
};

/* The memory of a whole file. Nobody copies it. */
Mapping map(const std::string &name)
{
	int fd = open(name.c_str(), O_RDONLY);
	struct stat status;
	void *memory;

	check(fd < 0 || fstat(fd, &status), name);
	memory = mmap(nullptr, status.st_size, PROT_READ, MAP_SHARED, fd, 0);
	check(memory == MAP_FAILED, "cannot map " + name);
	close(fd);
	return Mapping(memory, { static_cast<std::size_t>(status.st_size) });
}

Mr register_memory(rdma_cm_id *id, void *memory, std::size_t length, int access)
{
	Mr mr(ibv_reg_mr(id->pd, memory, length, access));

	check(!mr, "cannot register " + std::to_string(length) + " bytes");
	return mr;
}

/* An id at the address of the server. It gets a queue pair as soon as it has a device. */
Id create_id(const char *server, const std::string &port)
{
	rdma_addrinfo hints = {}, *found;
	ibv_qp_init_attr attr = {};
	rdma_cm_id *id;

	hints.ai_flags = server ? 0 : RAI_PASSIVE;
	hints.ai_port_space = RDMA_PS_TCP;
	if (rdma_getaddrinfo(server, port.c_str(), &hints, &found))
		fail(server ? server : "this host", "nobody knows such an address");

	Addresses addresses(found);
	attr.qp_type = IBV_QPT_RC;
	attr.cap = { depth + 1, 1, 1, 1, 0 };
	attr.sq_sig_all = 1;
	check(rdma_create_ep(&id, found, nullptr, &attr), server ? server : "port " + port);
	return Id(id);
}

/* Waits for the next completion of a send queue (rdma_get_send_comp) or of a receive queue. */
void complete(int (*get)(rdma_cm_id *, ibv_wc *), rdma_cm_id *id)
{
	ibv_wc wc;

	check(get(id, &wc) < 0, "no completion comes");
	switch (wc.status) {
	case IBV_WC_SUCCESS:
		return;
	case IBV_WC_WR_FLUSH_ERR:
		fail("the connection has ended", "the other end has hung up too early");
	case IBV_WC_REM_ACCESS_ERR:
		fail("the server refuses a Read", "this memory is not open to this caller");
	default:
		fail("a request has failed", ibv_wc_status_str(wc.status));
	}
}

void serve(const std::string &name, const std::string &port)
{
	Mapping mapping = map(name);
	std::size_t length = mapping.get_deleter().length;
	Id listener = create_id(nullptr, port);
	rdma_conn_param parameters = {};
	rdma_cm_id *caller;
	rdma_cm_event *event;

	check(rdma_listen(listener.get(), 1), "port " + port);
	std::cout << "serving " << length << " bytes at port " << port << std::endl;
	check(rdma_get_request(listener.get(), &caller), "no caller comes");

	Id id(caller);
	Mr mr = register_memory(id.get(), mapping.get(), length, IBV_ACCESS_REMOTE_READ);
	Offer offer = { htobe32(mr->rkey), htobe64(reinterpret_cast<std::uint64_t>(mapping.get())),
			htobe64(length) };

	check(rdma_post_recvv(id.get(), nullptr, nullptr, 0), "cannot post a receive");
	parameters.private_data = &offer;
	parameters.private_data_len = sizeof(offer);
	parameters.responder_resources = id->event->param.conn.responder_resources;
	check(rdma_accept(id.get(), &parameters), "cannot accept the caller");
	complete(rdma_get_recv_comp, id.get());
	std::cout << "the caller has the whole file" << std::endl;
	check(rdma_get_cm_event(id->channel, &event), "the caller does not hang up");
	rdma_ack_cm_event(event);
}

/* Calls the server, and returns what it offers. */
Offer call(rdma_cm_id *id, const std::string &server)
{
	rdma_conn_param parameters = {};
	Offer offer;

	parameters.initiator_depth = depth;
	check(rdma_connect(id, &parameters), server);
	if (id->event->param.conn.private_data_len < sizeof(offer))
		fail(server, "this is another kind of server");
	std::memcpy(&offer, id->event->param.conn.private_data, sizeof(offer));
	return { be32toh(offer.stag), be64toh(offer.address), be64toh(offer.length) };
}

/* Reads piece after piece, several at a time; Reads complete in their order. With iWARP, what takes
 * a Response has to be open to the network, so the memory is registered for that.
 */
void read_all(rdma_cm_id *id, const Offer &offer, std::ostream &file)
{
	std::vector<char> memory(depth * piece);
	Mr mr = register_memory(id, memory.data(), memory.size(),
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	std::uint64_t asked = 0, got = 0;
	auto place = [&](std::uint64_t at) { return &memory[at % memory.size()]; };
	auto length = [&](std::uint64_t at) {
		return std::min<std::uint64_t>(piece, offer.length - at);
	};

	while (got < offer.length) {
		while (asked < offer.length && asked - got < memory.size()) {
			check(rdma_post_read(id, nullptr, place(asked), length(asked), mr.get(), 0,
					     offer.address + asked, offer.stag),
			      "cannot post a Read");
			asked += length(asked);
		}
		complete(rdma_get_send_comp, id);
		if (!file.write(place(got), length(got)))
			fail("cannot write the file", meaning(errno));
		got += length(got);
	}
}

void fetch(const std::string &server, const std::string &name, const std::string &port)
{
	Id id = create_id(server.c_str(), port);
	Offer offer = call(id.get(), server);
	std::ofstream file(name, std::ios::binary);
	auto start = std::chrono::steady_clock::now();

	if (!file)
		fail(name, meaning(errno));
	read_all(id.get(), offer, file);
	std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
	file.close();
	if (!file)
		fail(name, meaning(errno));
	std::cout << "fetched " << offer.length << " bytes in " << time.count() << " s\n";
	check(rdma_post_sendv(id.get(), nullptr, nullptr, 0, 0), "cannot post a Send");
	complete(rdma_get_send_comp, id.get());
	check(rdma_disconnect(id.get()), "cannot hang up");
}

} /* namespace */

int main(int argc, char **argv)
{
	std::vector<std::string> words(argv + 1, argv + argc);
	bool serves = !words.empty() && words[0] == "serve";
	std::size_t needed = serves ? 2 : 3;

	if (words.size() < needed || words.size() > needed + 1 ||
	    (!serves && words[0] != "fetch")) {
		std::cerr << "usage: file_by_rdma serve FILE [PORT]\n"
			     "       file_by_rdma fetch SERVER FILE [PORT]\n";
		return 2;
	}
	words.push_back("7471");
	try {
		if (serves)
			serve(words[1], words[2]);
		else
			fetch(words[1], words[2], words[3]);
	} catch (const std::exception &problem) {
		std::cerr << "file_by_rdma: " << problem.what() << std::endl;
		return 1;
	}
	return 0;
}
