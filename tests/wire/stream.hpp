/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A raw peer and an application on the device that talk to each other. */
#pragma once

#include "../verbs/cases.hpp"
#include "../verbs/raw_peer.hpp"

#include <functional>
#include <stdexcept>
#include <string>

namespace wire
{

/* The role of the device: a responder is called, an initiator calls. */
enum class Role { responder, initiator };

/* How both ends set up a connection. */
struct Setup {
	raw::Frame request = {};	      /* Request of a raw peer that calls */
	std::optional<raw::Frame> reply = {}; /* Reply of one that is called, else accepting() */
	int segment_size = 0;		      /* MSS of the raw peer; 0 leaves it to TCP */
	std::uint8_t ird = 16;		      /* IRD and ORD of the application */
	std::uint8_t ord = 16;
	std::vector<std::uint8_t> private_data = {};
	rdma::QpOptions qp = {};
	std::size_t memory = 4096;
	int access = rdma::Buffer::all_rights;
	bool open = true; /* also exchange the first FPDU of the initiator */
};

/* Limits both ends to this many outstanding Reads and Atomics. */
Setup with_depth(std::uint8_t depth, Setup setup = {});

/* Flags of the enhanced block, RFC 6581 section 9: A and B in its first word, C and D in the
 * second.
 */
constexpr std::uint16_t peer_to_peer = 0x8000;
constexpr std::uint16_t ready_send = 0x4000;
constexpr std::uint16_t ready_write = 0x8000;
constexpr std::uint16_t ready_read = 0x4000;

/* An enhanced Request and Reply, of revision 2. */
raw::Frame enhanced_request(std::uint16_t first, std::uint16_t second,
			    const raw::Octets &private_data = {});
raw::Frame enhanced_reply(std::uint16_t first, std::uint16_t second,
			  const raw::Octets &private_data = {});

/* The two words of the enhanced block of a frame. The constructor fails if there is none. */
struct Enhanced {
	std::uint16_t first;
	std::uint16_t second;

	explicit Enhanced(const raw::Frame &frame, rdma::Where where = rdma::Where::current());
	unsigned int ird() const { return first & 0x3fff; }
	unsigned int ord() const { return second & 0x3fff; }
};

/* The application of one connection. */
class Application
{
public:
	rdma::End &end() { return *end_; }
	rdma::Buffer &memory() { return *memory_; }
	rdma_event_channel *channel() const { return channel_; }

	/* Headers with which the peer accesses the memory at this offset. */
	raw::Tagged write_to(std::uint64_t offset = 0) const;
	raw::ReadRequest read_from(std::uint64_t offset, std::uint32_t size) const;

protected:
	Application(const Setup &setup, rdma_event_channel *channel)
		: setup_(setup), channel_(channel)
	{
	}
	void take(rdma::Id id);
	rdma_conn_param parameters() const;

	Setup setup_;

private:
	rdma_event_channel *channel_;
	std::optional<rdma::End> end_;
	std::optional<rdma::Buffer> memory_;
};

/* The listener must exist before Application is constructed, so it is in a base class. */
struct OwnsListener {
	explicit OwnsListener(const std::string &address) : listener_(address) {}

	rdma::Listener listener_;
};

/* The application of a device that is called. */
class Responder : private OwnsListener, public Application
{
public:
	explicit Responder(const std::string &address, const Setup &setup = {});

	const sockaddr *address() const { return listener_.address(); }

	/* Takes the next Request and prepares the application's end. */
	rdma::Event take_request(rdma::Where where = rdma::Where::current());
	/* Returns 0, or errno. */
	int accept();
	void reject(const std::vector<std::uint8_t> &private_data = {});
	void expect_established(rdma::Where where = rdma::Where::current());
	/* Checks that the application got no event. */
	void expect_unaware(rdma::Where where = rdma::Where::current());
};

struct OwnsChannel {
	rdma::EventChannel owned_ = rdma::create_event_channel();
};

/* The application of a device that calls a raw peer. The constructor calls. */
class Initiator : private OwnsChannel, public Application
{
public:
	explicit Initiator(const std::string &address, const Setup &setup = {});

	raw::Peer accept() { return acceptor_.accept(); }
	/* The application gets an event that the call has failed. */
	rdma::Event expect_failure(rdma::Where where = rdma::Where::current());
	/* A Reply that accepts this Request, with a type of RTR that the Request offers. */
	static raw::Frame accepting(const raw::Frame &request);

private:
	raw::Acceptor acceptor_;
};

/* An established connection. */
class Stream
{
public:
	Stream(const std::string &address, Role role, const Setup &setup = {});

	raw::Peer &peer() { return *peer_; }
	Application &application();
	rdma::End &end() { return application().end(); }
	rdma::Buffer &memory() { return application().memory(); }
	rdma_event_channel *channel() { return application().channel(); }

	/* The frame that the device sent: the Reply, or the Request. */
	const raw::Frame &frame() const { return frame_; }

	/* The next FPDU. Fails if none comes or its CRC is bad. */
	raw::Fpdu hear(rdma::Where where = rdma::Where::current());
	/* The next FPDU must be this Terminate. Then the stream must end by a FIN, and the
	 * application must get an event. Returns the FPDU.
	 */
	raw::Fpdu expect_terminate(raw::Terminate expected,
				   rdma::Where where = rdma::Where::current());
	/* The peer sends these octets, and this is the answer. The memory stays zero. */
	raw::Fpdu expect_refusal(const raw::Octets &said, raw::Terminate expected,
				 rdma::Where where = rdma::Where::current());
	void expect_disconnect(rdma::Where where = rdma::Where::current());
	/* The device answers an empty Read with this MSN: it accepted everything before. */
	void expect_alive(std::uint32_t msn = 1, rdma::Where where = rdma::Where::current());

private:
	void be_called(const Setup &setup);
	void call(const Setup &setup);

	std::optional<Responder> responder_;
	std::optional<Initiator> initiator_;
	std::optional<raw::Peer> peer_;
	raw::Frame frame_;
};

/* A new stream has a receive posted. The peer sends what octets_for() says, and this is the answer.
 * The memory stays zero, and the receive is flushed.
 */
raw::Fpdu expect_refusal(const std::string &address, Role role, raw::Terminate expected,
			 const std::function<raw::Octets(Stream &stream)> &octets_for,
			 const Setup &setup = {}, rdma::Where where = rdma::Where::current());

/* A word of the application's memory. */
std::uint64_t &word(Stream &stream, std::size_t place = 0);

/* The file in sysfs of this setting of the device. */
std::string device_setting(const std::string &name);

/* Writes a value to a file in sysfs or procfs, and restores the old value at the end. */
class Setting
{
public:
	Setting(const std::string &file, const std::string &value);
	~Setting();

private:
	std::string file_;
	std::string before_;
};

/* Proves a claim with the device in each role. */
template <void (*prove)(const std::string &address, Role role)>
void in_both_roles(const std::string &address)
{
	for (Role role : { Role::responder, Role::initiator }) {
		try {
			prove(address, role);
		} catch (const cases::Skip &) {
			throw;
		} catch (const std::exception &error) {
			std::string name = role == Role::responder ? "responder" : "initiator";

			throw std::runtime_error("as " + name + ": " + error.what());
		}
	}
}

} /* namespace wire */
