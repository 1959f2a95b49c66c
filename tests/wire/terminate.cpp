/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* The Terminate message: RFC 5040 sections 4.8, 5.4 and 7.1. */
#include "../verbs/device.hpp"
#include "stream.hpp"

using namespace rdma;
using namespace raw;
using namespace wire;

namespace
{

Octets write_to_nowhere(const Octets &payload = octets_of(1, 4))
{
	return fpdu(Tagged{ .stag = 0x11223345, .offset = 0x00007f0012345678 }.ulpdu(payload));
}

void layout(const std::string &address, Role role)
{
	Stream tagged(address, role);
	Octets bad = write_to_nowhere();

	tagged.peer().say(bad);

	Fpdu heard = tagged.expect_terminate({ 1, 1, 0 });

	require(heard.field(18, 4) == 0x1100c000, "layer, type, code, M and D");
	require(heard.ulpdu.size() == 38, "a tagged header is repeated");

	Stream untagged(address, role);

	untagged.peer().say(fpdu(Untagged{ .queue = 4 }.ulpdu({})));
	heard = untagged.expect_terminate({ 1, 2, 1 });
	require(heard.field(18, 4) == 0x1201c000, "layer, type, code, M and D");
	require(heard.ulpdu.size() == 42, "an untagged header is repeated");

	Stream crc(address, role);

	bad.back() ^= 1;
	crc.peer().say(bad);
	heard = crc.expect_terminate({ 2, 0, 2 });
	require(heard.field(18, 4) == 0x20020000 && heard.ulpdu.size() == 22, "no headers");
}

void segment_length(const std::string &address, Role role)
{
	for (std::size_t size : { 4, 1, 1000 }) {
		Stream stream(address, role);
		Octets bad = write_to_nowhere(octets_of(1, size));

		stream.peer().say(bad);

		Fpdu heard = stream.expect_terminate({ 1, 1, 0 });

		require(heard.field(22, 2) == 14 + size, "the length is that of the whole segment");
		require(after(heard.ulpdu, 24) == first(after(bad, 2), 14), "its header follows");
	}
}

void headers_of_a_send(const std::string &address, Role role)
{
	Stream stream(address, role);
	Octets bad = Untagged{ .rdmap = 0x44, .invalidate = 0x12345678 }.ulpdu(octets_of(1, 40));

	stream.end().receive(stream.memory().sge(0, 100), 1);
	stream.peer().say(fpdu(bad));

	Fpdu heard = stream.expect_terminate({ 0, 2, 9 });

	require(heard.ulpdu[20] == 0xc0, "M and D, but not R");
	require(after(heard.ulpdu, 22) == be16(58) + first(bad, 18), "length and DDP header");
}

/* The Read Request itself is wrong, not its source. */
void headers_of_a_wrong_read(const std::string &address, Role role)
{
	ReadRequest read;

	for (const auto &[bad, expected] :
	     { std::pair{ read.ulpdu() + octets_of(1, 4), Terminate{ 0, 2, 255 } },
	       std::pair{ read.ulpdu(2), Terminate{ 1, 2, 3 } } }) {
		Stream stream(address, role);

		stream.peer().say(fpdu(bad));

		Fpdu heard = stream.expect_terminate(expected);

		require(heard.ulpdu[20] == 0xc0, "M and D, but not R");
		require(after(heard.ulpdu, 22) ==
				be16(static_cast<std::uint16_t>(bad.size())) + first(bad, 18),
			"length and DDP header");
	}
}

/* The source of a Read is deregistered in the middle of the Response. */
void advanced_headers(const std::string &address, Role role)
{
	constexpr std::uint32_t size = 16 << 20; /* more than TCP buffers for a peer that is idle */
	Stream stream(address, role);
	std::optional<Buffer> source(std::in_place, stream.end().pd(), size);
	ReadRequest read = { .sink_offset = 0x5000,
			     .size = size,
			     .source_stag = source->mr()->rkey,
			     .source_offset = source->address() };
	std::uint32_t sent = 0;

	stream.peer().say(fpdu(read.ulpdu()));

	Fpdu heard = stream.hear();

	source.reset();
	for (; heard.opcode() == 2; heard = stream.hear())
		sent += static_cast<std::uint32_t>(heard.payload().size());
	require(heard.terminate() == Terminate{ 0, 1, 0 } && heard.ulpdu.size() == 70,
		"the Terminate reports an invalid STag");
	require(sent < size, "the Response is not complete");
	read.sink_offset += sent;
	read.source_offset += sent;
	read.size -= sent;
	require(after(heard.ulpdu, 24) == read.ulpdu(), "the headers are for the rest of the Read");
}

void one_at_most(const std::string &address, Role role)
{
	Stream stream(address, role);

	stream.peer().say(fpdu(Untagged{ .queue = 4 }.ulpdu({})) + write_to_nowhere() +
			  fpdu({ 0xc1 }));
	/* The first error counts. This also checks QN, MSN, MO, L, and that only a FIN follows. */
	stream.expect_terminate({ 1, 2, 1 });
}

void unfinished_fpdus_are_finished(const std::string &address, Role role)
{
	constexpr std::uint32_t size = 16 << 20;
	Stream stream(address, role, { .memory = size });
	std::size_t heard_size = 0;

	stream.memory().fill(7);
	stream.end().write(stream.memory().sge(0, size), 0, 0x1234, 1);
	stream.peer().say(write_to_nowhere());

	Fpdu heard = stream.hear();

	for (; heard.opcode() == 0; heard = stream.hear())
		heard_size += heard.payload().size();
	require(heard.terminate() == Terminate{ 1, 1, 0 }, "whole FPDUs come, then the Terminate");
	require(heard_size < size, "the rest of the Write does not come");
	require(stream.peer().hears_end(), "then the end");
	stream.expect_disconnect();
	expect_completion(stream.end().send_cq(), IBV_WC_WR_FLUSH_ERR, 1);
}

/* If the device closed with unread input, TCP would send a RST, and the Terminate may get lost. */
void heard_in_spite_of_unread_input(const std::string &address, Role role)
{
	Stream stream(address, role);
	Octets said = write_to_nowhere();

	for (std::uint64_t i = 0; i < 20; i++)
		said = said + write_to_nowhere(octets_of(1, 60000));
	stream.peer().say(said);
	stream.expect_terminate({ 1, 1, 0 }); /* also expects a FIN */
}

Octets terminate(const Octets &header)
{
	return fpdu(Untagged{ .rdmap = 0x47, .queue = 2 }.ulpdu(header));
}

void peers_terminate_is_told(const std::string &address, Role role)
{
	struct {
		Octets header;
		ibv_event_type event;
	} told[] = { { be32(0x1100c000) + be16(18) + Tagged{}.ulpdu({}), IBV_EVENT_QP_ACCESS_ERR },
		     { be32(0x01020000), IBV_EVENT_QP_ACCESS_ERR },
		     { be32(0x02060000), IBV_EVENT_QP_REQ_ERR },
		     { be32(0x20020000), IBV_EVENT_QP_FATAL },
		     { be32(0), IBV_EVENT_QP_FATAL } };

	for (const auto &[header, event] : told) {
		Stream stream(address, role);

		stream.end().receive(stream.memory().sge(0, 8), 1);
		stream.end().read(stream.memory().sge(0, 8), 0, 0x1234, 2);
		stream.peer().say(terminate(header));
		expect_async_event(stream.end().qp()->context, event);
		stream.expect_disconnect();
		expect_completion(stream.end().recv_cq(), IBV_WC_WR_FLUSH_ERR, 1);
		expect_completion(stream.end().send_cq(), IBV_WC_WR_FLUSH_ERR, 2);
		require(stream.end().state() == IBV_QPS_ERR, "the QP is in error");
	}
}

/* The peer refuses this segment, for its protection or because of an invalid request. */
Octets refusal(bool protection, const Octets &ulpdu)
{
	return terminate(be32(protection ? 0x0100c000 : 0x0206c000) + be16(18) + first(ulpdu, 18));
}

/* Two Reads wait, with the MSNs 1 and 2. The Terminate fails those with what is expected here. */
void expect_blamed(const std::string &address, Role role, const Octets &said, ibv_wc_status first,
		   ibv_wc_status second, Where where = Where::current())
{
	Stream stream(address, role);

	for (std::uint64_t i = 1; i <= 2; i++) {
		stream.end().read(stream.memory().sge(0, 8), 0, 0x1234, i);
		require(stream.hear().msn() == i, "a Read Request comes");
	}
	stream.peer().say(said);
	expect_completion(stream.end().send_cq(), first, 1, where);
	expect_completion(stream.end().send_cq(), second, 2, where);
	stream.expect_disconnect(where);
	require(stream.memory().is_zero(), "nothing is placed", where);
}

void named_read_is_blamed(const std::string &address, Role role)
{
	auto nobody = [&](const Octets &wrong, Where where = Where::current()) {
		expect_blamed(address, role, refusal(true, wrong), IBV_WC_WR_FLUSH_ERR,
			      IBV_WC_WR_FLUSH_ERR, where);
	};
	Octets read = ReadRequest{}.ulpdu(1);

	expect_blamed(address, role, refusal(true, read), IBV_WC_REM_ACCESS_ERR,
		      IBV_WC_WR_FLUSH_ERR);
	expect_blamed(address, role, refusal(false, ReadRequest{}.ulpdu(2)), IBV_WC_WR_FLUSH_ERR,
		      IBV_WC_REM_INV_REQ_ERR);
	read[0] |= 0x80; /* tagged */
	nobody(read);
	nobody(Untagged{ .queue = 0, .msn = 1 }.ulpdu(octets_of(1, 8)));
	for (std::uint32_t msn : { 0u, 3u, 17u, ~0u })
		nobody(ReadRequest{}.ulpdu(msn));
}

/* The stream ends, and no FPDU comes before that. */
void malformed_terminates(const std::string &address, Role role)
{
	Octets whole = be32(0x1100c000) + be16(18) + Tagged{}.ulpdu({});
	std::vector<Octets> malformed = { terminate({}), terminate(first(whole, 3)),
					  terminate(first(whole, 4)), terminate(first(whole, 7)),
					  terminate(whole + octets_of(1, 500)) };

	for (std::uint32_t wrong : { 0, 3, 4 })
		malformed.push_back(fpdu(Untagged{ .rdmap = 0x47, .queue = wrong }.ulpdu(whole)));
	for (std::uint32_t wrong : { 0, 2 })
		malformed.push_back(
			fpdu(Untagged{ .rdmap = 0x47, .queue = 2, .msn = wrong }.ulpdu(whole)));
	malformed.push_back(fpdu(Untagged{ .rdmap = 0x47, .queue = 2, .offset = 4 }.ulpdu(whole)));
	malformed.push_back(fpdu(Untagged{ .ddp = 1, .rdmap = 0x47, .queue = 2 }.ulpdu(whole)));
	malformed.push_back(fpdu(Tagged{ .rdmap = 0x47 }.ulpdu(whole)));

	for (const Octets &said : malformed) {
		Stream stream(address, role);

		stream.peer().say(said);
		require(stream.peer().hears_end(), "the stream ends without another Terminate");
		stream.expect_disconnect();
	}
}

void reserved_bits(const std::string &address, Role role)
{
	Stream stream(address, role);

	stream.peer().say(terminate(be32(0x11001fff))); /* they are ignored */
	expect_async_event(stream.end().qp()->context, IBV_EVENT_QP_ACCESS_ERR);
	stream.expect_disconnect();

	Stream other(address, role);

	other.peer().say(write_to_nowhere());
	require(!(other.expect_terminate({ 1, 1, 0 }).field(20, 2) & 0x1fff),
		"reserved bits are sent as zero");
}

void local_abort(const std::string &address, Role role)
{
	Stream moved(address, role);

	moved.end().move_to(IBV_QPS_ERR);

	auto heard = moved.peer().hear_fpdu();

	require(heard && heard->ulpdu.size() == 22 && heard->field(18, 4) == 0,
		"a Terminate 0/0 without headers comes");

	/* A work request that fails locally. */
	Stream failed(address, role);

	failed.end().send({ failed.memory().address(), 8, failed.memory().mr()->lkey ^ 1 }, 1);
	heard = failed.peer().hear_fpdu();
	require(heard && heard->ulpdu.size() == 22 && heard->field(18, 4) == 0,
		"a Terminate 0/0 without headers comes");
	expect_completion(failed.end().send_cq(), IBV_WC_LOC_PROT_ERR, 1);
}

const cases::Case all[] = {
	{ "TRM-01 a Terminate has each field at its place", in_both_roles<layout> },
	{ "TRM-02 a Terminate has the length of the whole segment", in_both_roles<segment_length> },
	{ "TRM-03 R is for Read Requests only", in_both_roles<headers_of_a_send> },
	{ "TRM-03 R is for the source of a Read only", in_both_roles<headers_of_a_wrong_read> },
	{ "TRM-04 the Terminate of a Read has the rest of the request",
	  in_both_roles<advanced_headers> },
	{ "TRM-05 one Terminate is sent, and nothing after it", in_both_roles<one_at_most> },
	{ "TRM-06 the first error wins", in_both_roles<one_at_most> },
	{ "TRM-07 an FPDU under way is finished before the Terminate",
	  in_both_roles<unfinished_fpdus_are_finished> },
	{ "TRM-08 a Terminate arrives, whatever else the peer has sent",
	  in_both_roles<heard_in_spite_of_unread_input> },
	{ "TRM-09 the application is told of the peer's Terminate",
	  in_both_roles<peers_terminate_is_told> },
	{ "TRM-09 the Read that the peer's Terminate names is the one that fails",
	  in_both_roles<named_read_is_blamed> },
	{ "TRM-10 a malformed Terminate is not answered", in_both_roles<malformed_terminates> },
	{ "TRM-11 reserved bits of a Terminate are zero, and ignored",
	  in_both_roles<reserved_bits> },
	{ "TRM-12 a local abort is reported by 0/0", in_both_roles<local_abort> },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
