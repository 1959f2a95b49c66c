/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* FPDUs: RFC 5044 sections 3 to 6. */
#include "stream.hpp"

#include <algorithm>
#include <format>

using namespace rdma;
using namespace raw;
using namespace wire;

namespace
{

void pad_of_each_size(const std::string &address, Role role)
{
	Stream stream(address, role);

	stream.memory().fill(9);
	for (std::uint32_t size = 1; size <= 8; size++)
		stream.end().send(stream.memory().sge(0, size), size);
	for (std::uint32_t size = 1; size <= 8; size++) {
		Fpdu heard = stream.hear();

		require(heard.ulpdu.size() == 18 + size, "the length is that of the ULPDU only");
		require(heard.payload() == octets_of(9, size), "the FPDU has the whole message");
		require((2 + heard.ulpdu.size() + heard.pad.size()) % 4 == 0,
			"the pad has the right length");
		require(std::ranges::all_of(heard.pad, [](auto octet) { return !octet; }),
			"the pad is zero");
	}
}

void pad_is_ignored(const std::string &address, Role role)
{
	Stream stream(address, role);

	stream.end().receive(stream.memory().sge(0, 5), 1);
	stream.peer().say(fpdu(Untagged{}.ulpdu(octets_of(1, 5)), 0xff));
	expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, 1);
	require(stream.memory().holds(1, 0, 5), "the Send is delivered");
}

/* A Write, a Send and a Read Request of the written data. */
Octets one_of_each(Stream &stream, std::uint32_t msn)
{
	return fpdu(stream.application().write_to().ulpdu(octets_of(msn, 11))) +
	       fpdu(Untagged{ .msn = msn }.ulpdu(octets_of(msn, 6, 100))) +
	       fpdu(stream.application().read_from(0, 11).ulpdu(msn));
}

void expect_one_of_each(Stream &stream, std::uint32_t msn)
{
	expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, msn);
	require(stream.memory().holds(msn, 100, 6), "the Send is delivered");
	require(stream.hear().payload() == octets_of(msn, 11), "the Read returns the written data");
}

void segmentation(const std::string &address, Role role)
{
	Stream stream(address, role);
	std::size_t size = one_of_each(stream, 1).size();
	std::uint32_t msn = 1;

	for (std::size_t split = 1; split < size; split++, msn++) {
		Octets octets = one_of_each(stream, msn);

		stream.end().receive(stream.memory().sge(100, 20), msn);
		stream.peer().say(first(octets, split));
		stream.peer().say(after(octets, split));
		expect_one_of_each(stream, msn);
	}
	stream.end().receive(stream.memory().sge(100, 20), msn);
	stream.peer().say_slowly(one_of_each(stream, msn));
	expect_one_of_each(stream, msn);
}

void crc_before_placement(const std::string &address, Role role)
{
	std::size_t size = 2 + 14 + 16 + 4;

	for (std::size_t place : { size - 1, size - 4, std::size_t{ 20 }, std::size_t{ 9 } }) {
		Stream stream(address, role);
		Octets frame = fpdu(stream.application().write_to().ulpdu(octets_of(1, 16)));

		frame[place] ^= 0x10;
		stream.peer().say(frame);
		stream.expect_terminate({ 2, 0, 2 });
		require(stream.memory().is_zero(), "nothing is placed");
	}
}

void nothing_after_a_bad_crc(const std::string &address, Role role)
{
	Stream stream(address, role);
	Octets bad = fpdu(Untagged{}.ulpdu(octets_of(1, 5)));

	bad.back() ^= 1;
	stream.end().receive(stream.memory().sge(0, 8), 1);
	stream.end().receive(stream.memory().sge(8, 8), 2);
	stream.peer().say(bad + fpdu(Untagged{}.ulpdu(octets_of(1, 5))) +
			  fpdu(Untagged{ .msn = 2 }.ulpdu(octets_of(1, 5))));

	Fpdu terminate = stream.expect_terminate({ 2, 0, 2 });

	require(terminate.ulpdu.size() == 22 && terminate.field(20, 2) == 0,
		"the Terminate has no headers");
	expect_completion(stream.end().recv_cq(), IBV_WC_WR_FLUSH_ERR, 1);
	expect_completion(stream.end().recv_cq(), IBV_WC_WR_FLUSH_ERR, 2);
	require(stream.memory().is_zero(), "nothing is placed");
}

void nothing_follows_an_error(const std::string &address, Role role)
{
	Stream stream(address, role);
	Octets said = fpdu({ 0xc1 });

	for (std::size_t i = 0; i < 100; i++)
		said = said + fpdu(stream.application().write_to(i * 8).ulpdu(octets_of(1, 8)));
	stream.expect_refusal(said, { 2, 0, 3 });
}

/* The sizes of all ULPDUs of one Write by the device. */
std::vector<std::size_t> ulpdus_of_a_write(const std::string &address, Role role, int segment_size)
{
	Stream stream(address, role, { .segment_size = segment_size, .memory = 300000 });
	std::vector<std::size_t> sizes;
	std::size_t heard = 0;

	stream.end().write(stream.memory().sge(0, 300000), 0, 0x1234, 1);
	while (heard < 300000) {
		Fpdu fpdu = stream.hear();

		sizes.push_back(fpdu.ulpdu.size());
		heard += fpdu.payload().size();
	}
	return sizes;
}

void limits_of_ulpdus(const std::string &address, Role role)
{
	auto over_loopback = ulpdus_of_a_write(address, role, 0);

	require(std::ranges::max(over_loopback) <= 64768, "no ULPDU has more than 64768 octets");

	auto tiny = ulpdus_of_a_write(address, role, 88);

	tiny.pop_back(); /* the last one may be shorter */
	require(std::ranges::min(tiny) >= 128, "no other ULPDU has fewer than 128 octets");
}

/* EMSS is the MSS that the peer has announced, less 12 with time stamps. */
void mulpdu_formula(const std::string &address, Role role)
{
	for (int announced : { 536, 1001, 1460 }) {
		auto sizes = ulpdus_of_a_write(address, role, announced);
		int longest = static_cast<int>(std::ranges::max(sizes));
		auto mulpdu = [](int emss) { return emss - (6 + emss % 4); };

		require(longest == mulpdu(announced) || longest == mulpdu(announced - 12),
			std::format("{} octets with segments of {}", longest, announced));
	}
}

/* The MTU of the path, here the loopback device, shrinks. */
void mulpdu_of_another_path(const std::string &address, Role role)
{
	Stream stream(address, role, { .memory = 100000 });
	auto longest_of_a_write = [&stream] {
		std::size_t longest = 0, heard = 0;

		stream.end().write(stream.memory().sge(0, 100000), 0, 0x1234, 1);
		while (heard < 100000) {
			Fpdu fpdu = stream.hear();

			longest = std::max(longest, fpdu.ulpdu.size());
			heard += fpdu.payload().size();
		}
		return longest;
	};

	require(longest_of_a_write() > 1500, "at first FPDUs are long");

	Setting setting("/sys/class/net/lo/mtu", "1500");

	longest_of_a_write(); /* TCP may learn of the new MTU while it sends this */
	require(longest_of_a_write() <= 1500 - 40 - 6, "then FPDUs are short");
}

void short_ulpdus(const std::string &address, Role role)
{
	Octets write = Tagged{}.ulpdu({}), send = Untagged{}.ulpdu({});
	Octets read = ReadRequest{}.ulpdu();
	auto is_answered = [&](const Octets &ulpdu, std::size_t size) {
		Stream stream(address, role);

		stream.end().receive(stream.memory().sge(0, 8), 1);
		stream.peer().say(fpdu(first(ulpdu, size)));

		require(stream.expect_terminate({ 2, 0, 3 }).ulpdu.size() == 22,
			std::format("the answer to {} octets has no headers", size));
		expect_completion(stream.end().recv_cq(), IBV_WC_WR_FLUSH_ERR, 1);
	};

	for (std::size_t size : { 0, 1, 2, 13 })
		is_answered(write, size);
	for (std::size_t size : { 2, 14, 17 })
		is_answered(send, size);
	for (std::size_t size : { 18, 45 })
		is_answered(read, size);

	Stream stream(address, role);

	stream.expect_alive();
}

void long_ulpdus(const std::string &address, Role role)
{
	Stream stream(address, role, { .memory = 65536 });
	std::uint32_t msn = 1;

	for (std::size_t size : { 60000, 64768 - 18, 65535 - 18 }) {
		stream.end().receive(stream.memory().sge(0, 65536), size);
		stream.peer().say(fpdu(Untagged{ .msn = msn }.ulpdu(octets_of(msn, size))));

		ibv_wc wc = expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, size);

		require(wc.byte_len == size && stream.memory().holds(msn, 0, size),
			"the Send is delivered");
		msn++;
	}
}

void end_of_the_stream(const std::string &address, Role role)
{
	Stream stream(address, role);

	stream.peer().end();
	stream.expect_disconnect();
	require(stream.peer().hears_end(), "the device ends its half");
}

const cases::Case all[] = {
	{ "MPA-21 an FPDU has one ULPDU and a pad of zeros", in_both_roles<pad_of_each_size> },
	{ "MPA-22 the pad is not looked at, but counts for the CRC",
	  in_both_roles<pad_is_ignored> },
	{ "MPA-23 FPDUs may come in any segmentation", in_both_roles<segmentation> },
	{ "MPA-24 nothing is placed before its CRC is good", in_both_roles<crc_before_placement> },
	{ "MPA-25 a bad CRC ends the stream with 2/0/2", in_both_roles<nothing_after_a_bad_crc> },
	{ "MPA-27 ULPDUs have 128 to 64768 octets", in_both_roles<limits_of_ulpdus> },
	{ "MPA-28 the longest ULPDU follows the formula", in_both_roles<mulpdu_formula> },
	{ "MPA-28 the longest ULPDU follows the MTU of the path",
	  in_both_roles<mulpdu_of_another_path> },
	{ "MPA-29 a ULPDU shorter than its headers is answered with 2/0/3",
	  in_both_roles<short_ulpdus> },
	{ "MPA-30 ULPDUs of up to 65535 octets are taken", in_both_roles<long_ulpdus> },
	{ "MPA-32 the peer's FIN is made known", in_both_roles<end_of_the_stream> },
	{ "MPA-33 no FPDU is taken after an error of MPA",
	  in_both_roles<nothing_follows_an_error> },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
