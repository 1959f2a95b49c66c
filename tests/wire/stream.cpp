/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A raw peer and an application on the device that talk to each other. */
#include "stream.hpp"
#include "../verbs/device.hpp"

#include <cerrno>
#include <format>
#include <fstream>

using namespace rdma;
using namespace raw;

namespace wire
{

static Octets enhanced_block(std::uint16_t first, std::uint16_t second)
{
	return be16(first) + be16(second);
}

Frame enhanced_request(std::uint16_t first, std::uint16_t second, const Octets &private_data)
{
	return { request_key, 0x50, 2, enhanced_block(first, second) + private_data };
}

Frame enhanced_reply(std::uint16_t first, std::uint16_t second, const Octets &private_data)
{
	return { reply_key, 0x50, 2, enhanced_block(first, second) + private_data };
}

/* The device's own ORD is larger. The peer's IRD limits it to depth. */
Setup with_depth(std::uint8_t depth, Setup setup)
{
	setup.request = enhanced_request(depth, depth);
	setup.reply = enhanced_reply(peer_to_peer | depth, ready_write | depth);
	setup.ird = depth;
	return setup;
}

Enhanced::Enhanced(const Frame &frame, Where where)
{
	const Octets &octets = frame.private_data;

	require(frame.revision == 2 && frame.flags & 0x10 && octets.size() >= 4,
		"the frame is enhanced", where);
	first = static_cast<std::uint16_t>(octets[0] << 8 | octets[1]);
	second = static_cast<std::uint16_t>(octets[2] << 8 | octets[3]);
}

/*
 * The application
 */

Tagged Application::write_to(std::uint64_t offset) const
{
	return { .stag = memory_->mr()->rkey, .offset = memory_->address() + offset };
}

ReadRequest Application::read_from(std::uint64_t offset, std::uint32_t size) const
{
	return { .size = size,
		 .source_stag = memory_->mr()->rkey,
		 .source_offset = memory_->address() + offset };
}

void Application::take(Id id)
{
	memory_.reset();
	end_.emplace(std::move(id), setup_.qp);
	memory_.emplace(end_->pd(), setup_.memory, setup_.access);
}

rdma_conn_param Application::parameters() const
{
	rdma_conn_param parameters = connection_parameters(setup_.private_data);

	parameters.responder_resources = setup_.ird;
	parameters.initiator_depth = setup_.ord;
	return parameters;
}

Responder::Responder(const std::string &address, const Setup &setup)
	: OwnsListener(address), Application(setup, listener_.channel())
{
}

Event Responder::take_request(Where where)
{
	Event event = expect_event(channel(), RDMA_CM_EVENT_CONNECT_REQUEST, 10000, where);

	take(Id(event.id));
	return event;
}

int Responder::accept()
{
	rdma_conn_param answer = parameters();

	return rdma_accept(end().id(), &answer) ? errno : 0;
}

void Responder::reject(const std::vector<std::uint8_t> &private_data)
{
	if (rdma_reject(end().id(), private_data.data(),
			static_cast<std::uint8_t>(private_data.size())))
		fail("rdma_reject", errno);
}

void Responder::expect_established(Where where)
{
	expect_event(channel(), RDMA_CM_EVENT_ESTABLISHED, 10000, where);
}

void Responder::expect_unaware(Where where)
{
	require(next_event(channel(), 0).type < 0, "the application hears nothing", where);
}

Initiator::Initiator(const std::string &address, const Setup &setup)
	: Application(setup, owned_.get()), acceptor_(address, setup.segment_size)
{
	take(resolve(channel(), address, acceptor_.port()));

	rdma_conn_param request = parameters();

	if (rdma_connect(end().id(), &request))
		fail("rdma_connect", errno);
}

Event Initiator::expect_failure(Where where)
{
	Event event = next_event(channel());

	require(event.type == RDMA_CM_EVENT_CONNECT_ERROR ||
			event.type == RDMA_CM_EVENT_UNREACHABLE ||
			event.type == RDMA_CM_EVENT_REJECTED,
		std::format("event {} reports a failed call", event.type), where);
	return event;
}

Frame Initiator::accepting(const Frame &request)
{
	if (request.revision < 2)
		return { reply_key, 0x40, 1 };

	Enhanced asked(request);
	std::uint16_t rtr = asked.first & peer_to_peer
				    ? asked.second & ready_write ? ready_write : ready_read
				    : 0;

	return enhanced_reply((asked.first & peer_to_peer) | 16, rtr | 16);
}

/*
 * The stream
 */

Stream::Stream(const std::string &address, Role role, const Setup &setup)
{
	if (role == Role::responder) {
		responder_.emplace(address, setup);
		be_called(setup);
	} else {
		initiator_.emplace(address, setup);
		call(setup);
	}
}

void Stream::be_called(const Setup &setup)
{
	peer_.emplace(responder_->address(), setup.segment_size);
	peer().say(setup.request.octets());
	responder_->take_request();
	if (int err = responder_->accept())
		fail("rdma_accept", err);

	auto reply = peer().hear_frame();

	require(reply && reply->key == reply_key && !(reply->flags & 0x20), "the device accepts");
	frame_ = *reply;
	if (setup.open)
		peer().say(fpdu(Tagged{}.ulpdu({})));

	bool waits = frame_.flags & 0x10 && Enhanced(frame_).first & peer_to_peer;

	if (setup.open || !waits)
		responder_->expect_established();
}

void Stream::call(const Setup &setup)
{
	peer_.emplace(initiator_->accept());

	auto request = peer().hear_frame();

	require(request && request->key == request_key, "the device calls");
	frame_ = *request;
	peer().say(setup.reply.value_or(Initiator::accepting(frame_)).octets());
	if (setup.open && frame_.flags & 0x10 && Enhanced(frame_).first & peer_to_peer)
		hear();
	expect_event(channel(), RDMA_CM_EVENT_ESTABLISHED);
}

Application &Stream::application()
{
	return responder_ ? static_cast<Application &>(*responder_) : *initiator_;
}

Fpdu Stream::hear(Where where)
{
	auto fpdu = peer().hear_fpdu();

	require(fpdu.has_value(), "an FPDU comes", where);
	require(fpdu->crc_is_good, "its CRC is good", where);
	return *fpdu;
}

Fpdu Stream::expect_refusal(const Octets &said, Terminate expected, Where where)
{
	peer().say(said);

	Fpdu answer = expect_terminate(expected, where);

	require(memory().is_zero(), "nothing has changed", where);
	return answer;
}

Fpdu Stream::expect_terminate(Terminate expected, Where where)
{
	Fpdu fpdu = hear(where);
	auto heard = fpdu.terminate();

	require(heard.has_value(), "a Terminate comes", where);
	require(*heard == expected,
		std::format("the Terminate is {}, not {}", to_string(expected), to_string(*heard)),
		where);
	require(peer().hears_end(), "a FIN follows it", where);
	expect_disconnect(where);
	return fpdu;
}

void Stream::expect_disconnect(Where where)
{
	expect_event(channel(), RDMA_CM_EVENT_DISCONNECTED, 10000, where);
}

void Stream::expect_alive(std::uint32_t msn, Where where)
{
	peer().say(fpdu(ReadRequest{}.ulpdu(msn)));

	Fpdu answer = hear(where);

	require(answer.opcode() == 2 && answer.payload().empty(), "an empty Read is answered",
		where);
}

Fpdu expect_refusal(const std::string &address, Role role, Terminate expected,
		    const std::function<Octets(Stream &stream)> &octets_for, const Setup &setup,
		    Where where)
{
	Stream stream(address, role, setup);

	stream.end().receive({ 0, 0, 0 }, 1);

	Fpdu answer = stream.expect_refusal(octets_for(stream), expected, where);

	expect_completion(stream.end().recv_cq(), IBV_WC_WR_FLUSH_ERR, 1, where);
	return answer;
}

std::uint64_t &word(Stream &stream, std::size_t place)
{
	return reinterpret_cast<std::uint64_t *>(stream.memory().bytes().data())[place];
}

/*
 * The device
 */

/* The theme has only one device. */
std::string device_setting(const std::string &setting)
{
	int count = 0;
	ibv_device **list = ibv_get_device_list(&count);
	std::string file = count == 1 ? setting_file(list[0], setting) : "";

	ibv_free_device_list(list);
	if (count != 1)
		fail(std::format("there are {} devices", count));
	return file;
}

static void write_file(const std::string &file, const std::string &value)
{
	std::ofstream stream(file);

	stream << value << std::flush;
	if (!stream)
		fail(file);
}

Setting::Setting(const std::string &file, const std::string &value) : file_(file)
{
	std::getline(std::ifstream(file_) >> std::ws, before_);
	write_file(file_, value);
}

Setting::~Setting()
{
	std::ofstream(file_) << before_
			     << '\n'; /* without '\n' an empty value would not be written */
}

} /* namespace wire */
