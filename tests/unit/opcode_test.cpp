// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* opcode_test.cpp - the table of operations, and the checks of a segment's headers */

/* The header comes first, to test that it compiles alone. */
extern "C" {
#include <asm/byteorder.h>
#include "wire/opcode.h"
}

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "octets.hpp"

namespace
{

const uint32_t any_len = UINT16_MAX;

/* RFC 5040 figure 4 and RFC 7306 figure 2. Lengths are those of the whole ULPDU. */
struct Operation {
	bool tagged;
	uint32_t qn;
	uint32_t shortest, longest;
};

const std::map<unsigned int, Operation> operations = {
	{ RDMAP_WRITE, { true, 0, 14, any_len } },
	{ RDMAP_READ_REQ, { false, 1, 46, 46 } },
	{ RDMAP_READ_RESP, { true, 0, 14, any_len } },
	{ RDMAP_SEND, { false, 0, 18, any_len } },
	{ RDMAP_SEND_INV, { false, 0, 18, any_len } },
	{ RDMAP_SEND_SE, { false, 0, 18, any_len } },
	{ RDMAP_SEND_SE_INV, { false, 0, 18, any_len } },
	{ RDMAP_TERMINATE, { false, 2, 22, any_len } },
	{ RDMAP_IMM, { false, 0, 26, 26 } },
	{ RDMAP_IMM_SE, { false, 0, 26, 26 } },
	{ RDMAP_ATOMIC_REQ, { false, 1, 70, 70 } },
	{ RDMAP_ATOMIC_RESP, { false, 3, 30, 30 } },
};

/* The header fields of a segment. */
struct Segment {
	unsigned int opcode = RDMAP_SEND;
	bool tagged = false;
	uint32_t qn = 0;
	uint32_t ulpdu_len = 18;
	unsigned int ddp_version = 1;
	unsigned int rdmap_version = 1;
	uint8_t ddp_other = DDP_LAST;
	uint8_t rdmap_other = 0;
	uint32_t inv_stag = 0;

	static Segment of(unsigned int opcode)
	{
		const Operation &op = operations.at(opcode);

		return {
			.opcode = opcode, .tagged = op.tagged, .qn = op.qn, .ulpdu_len = op.shortest
		};
	}

	xiw_headers headers() const
	{
		xiw_headers hdr = {};

		hdr.mpa.ulpdu_len = cpu_to_be16(ulpdu_len);
		hdr.ctrl.ddp = (tagged ? 0x80 : 0) | ddp_other | ddp_version;
		hdr.ctrl.rdmap = rdmap_version << 6 | rdmap_other | opcode;
		if (!tagged) {
			hdr.untagged.inv_stag = cpu_to_be32(inv_stag);
			hdr.untagged.qn = cpu_to_be32(qn);
		}
		return hdr;
	}
};

struct Verdict {
	const xiw_rdmap_op *op;
	xiw_cause cause;
};

Verdict check(const Segment &segment)
{
	xiw_headers hdr = segment.headers();
	Verdict verdict;

	verdict.op = xiw_ddp_check(&hdr, segment.ulpdu_len, &verdict.cause);
	return verdict;
}

/* Applies the rules in the order in which they must be checked. */
xiw_cause expected(const Segment &segment)
{
	if (segment.ulpdu_len < (segment.tagged ? 14 : 18))
		return XIW_BAD_FPDU_LENGTH;
	if (segment.ddp_version != 1)
		return segment.tagged ? XIW_BAD_DDP_VERSION_TAGGED : XIW_BAD_DDP_VERSION_UNTAGGED;
	if (segment.rdmap_version != 1)
		return XIW_BAD_RDMAP_VERSION;

	auto found = operations.find(segment.opcode);
	if (found == operations.end() || found->second.tagged != segment.tagged)
		return XIW_BAD_OPCODE;

	const Operation &op = found->second;
	if (!op.tagged && segment.qn != op.qn)
		return XIW_BAD_QN;
	if (segment.ulpdu_len < op.shortest) {
		/* Eight octets of immediate data are payload, not a header. */
		bool immediate = segment.opcode == RDMAP_IMM || segment.opcode == RDMAP_IMM_SE;
		return immediate ? XIW_BAD_LENGTH : XIW_BAD_FPDU_LENGTH;
	}
	return segment.ulpdu_len > op.longest ? XIW_BAD_LENGTH : XIW_OK;
}

TEST(xiw_rdmap_ops, assigned_opcodes)
{
	for (unsigned int opcode = 0; opcode < RDMAP_NUM_OPCODES; opcode++) {
		const xiw_rdmap_op &row = xiw_rdmap_ops[opcode];
		auto found = operations.find(opcode);

		ASSERT_EQ(row.known, found != operations.end()) << opcode;
		if (!row.known)
			continue;
		EXPECT_EQ(row.tagged, found->second.tagged) << opcode;
		EXPECT_EQ(row.qn, found->second.qn) << opcode;
	}
}

TEST(xiw_rdmap_ops, lengths)
{
	EXPECT_EQ(xiw_rdmap_ops[RDMAP_READ_REQ].fixed_len, 28);
	EXPECT_EQ(xiw_rdmap_ops[RDMAP_IMM].fixed_len, 8);
	EXPECT_EQ(xiw_rdmap_ops[RDMAP_IMM_SE].fixed_len, 8);
	EXPECT_EQ(xiw_rdmap_ops[RDMAP_ATOMIC_REQ].fixed_len, 52);
	EXPECT_EQ(xiw_rdmap_ops[RDMAP_ATOMIC_RESP].fixed_len, 12);
	EXPECT_EQ(xiw_rdmap_ops[RDMAP_TERMINATE].header_len, 4);
	EXPECT_EQ(xiw_rdmap_ops[RDMAP_TERMINATE].fixed_len, 0);
	EXPECT_EQ(xiw_rdmap_ops[RDMAP_SEND].fixed_len, 0);
}

TEST(xiw_rdmap_ops, flavours_of_send)
{
	auto flavour = [](unsigned int opcode) {
		const xiw_rdmap_op &row = xiw_rdmap_ops[opcode];
		return std::pair(bool(row.invalidates), bool(row.solicited));
	};

	for (const auto &[opcode, op] : operations) {
		bool inv = opcode == RDMAP_SEND_INV || opcode == RDMAP_SEND_SE_INV;
		bool se = opcode == RDMAP_SEND_SE || opcode == RDMAP_SEND_SE_INV ||
			  opcode == RDMAP_IMM_SE;
		EXPECT_EQ(flavour(opcode), std::pair(inv, se)) << opcode;
	}
}

TEST(xiw_ddp_check, worked_examples)
{
	const std::pair<const Octets &, unsigned int> examples[] = {
		{ fpdu::write, RDMAP_WRITE },
		{ fpdu::send, RDMAP_SEND },
		{ fpdu::read_request, RDMAP_READ_REQ },
		{ fpdu::read_response, RDMAP_READ_RESP },
		{ fpdu::terminate_write, RDMAP_TERMINATE },
		{ fpdu::terminate_read, RDMAP_TERMINATE },
		{ fpdu::terminate_crc, RDMAP_TERMINATE },
		{ fpdu::fetch_add, RDMAP_ATOMIC_REQ },
		{ fpdu::atomic_response, RDMAP_ATOMIC_RESP },
		{ fpdu::cmp_swap, RDMAP_ATOMIC_REQ },
		{ fpdu::immediate, RDMAP_IMM },
		{ fpdu::rtr_write, RDMAP_WRITE },
		{ fpdu::rtr_read, RDMAP_READ_REQ },
	};

	for (const auto &[fpdu, opcode] : examples) {
		ExactCopy copy(fpdu);
		auto *hdr = copy.as<xiw_headers>();
		xiw_cause cause = XIW_NUM_CAUSES;

		EXPECT_EQ(xiw_ddp_check(hdr, be16_to_cpu(hdr->mpa.ulpdu_len), &cause),
			  &xiw_rdmap_ops[opcode]);
		EXPECT_EQ(cause, XIW_OK) << opcode;
	}
}

TEST(xiw_ddp_check, reserved_bits_are_ignored)
{
	for (const auto &[opcode, op] : operations) {
		Segment segment = Segment::of(opcode);

		segment.ddp_other = 0x7c; /* L and all four reserved bits */
		segment.rdmap_other = 0x30;
		segment.inv_stag = ~0u;
		EXPECT_EQ(check(segment).cause, XIW_OK) << opcode;
		EXPECT_EQ(check(segment).op, &xiw_rdmap_ops[opcode]);

		segment.ddp_other = 0;
		EXPECT_EQ(check(segment).cause, XIW_OK) << opcode;
	}
}

TEST(xiw_ddp_check, tagged_bit_against_opcode)
{
	for (const auto &[opcode, op] : operations) {
		Segment segment = Segment::of(opcode);

		segment.tagged = !op.tagged;
		segment.ulpdu_len = 70;
		EXPECT_EQ(check(segment).cause, XIW_BAD_OPCODE) << opcode;
		EXPECT_EQ(check(segment).op, nullptr);
	}
}

TEST(xiw_ddp_check, opcodes_not_assigned)
{
	for (unsigned int opcode : { 12, 13, 14, 15 })
		for (bool tagged : { false, true })
			EXPECT_EQ(check({ .opcode = opcode, .tagged = tagged }).cause,
				  XIW_BAD_OPCODE)
				<< opcode;
}

TEST(xiw_ddp_check, versions)
{
	for (unsigned int version : { 0, 2, 3 }) {
		EXPECT_EQ(check({ .ddp_version = version }).cause, XIW_BAD_DDP_VERSION_UNTAGGED);
		EXPECT_EQ(check({ .opcode = RDMAP_WRITE, .tagged = true, .ddp_version = version })
				  .cause,
			  XIW_BAD_DDP_VERSION_TAGGED);
		EXPECT_EQ(check({ .rdmap_version = version }).cause, XIW_BAD_RDMAP_VERSION);
	}
}

TEST(xiw_ddp_check, queues)
{
	for (uint32_t qn : { 1u, 2u, 3u, 4u, 0x01000000u, ~0u })
		EXPECT_EQ(check({ .qn = qn }).cause, XIW_BAD_QN) << qn;
	for (uint32_t qn : { 0u, 2u, 3u, 4u })
		EXPECT_EQ(check({ .opcode = RDMAP_READ_REQ, .qn = qn, .ulpdu_len = 46 }).cause,
			  XIW_BAD_QN)
			<< qn;
}

TEST(xiw_ddp_check, lengths)
{
	auto cause = [](unsigned int opcode, uint32_t ulpdu_len) {
		Segment segment = Segment::of(opcode);
		segment.ulpdu_len = ulpdu_len;
		return check(segment).cause;
	};

	for (uint32_t len : { 0, 1, 2, 13 })
		EXPECT_EQ(cause(RDMAP_WRITE, len), XIW_BAD_FPDU_LENGTH) << len;
	EXPECT_EQ(cause(RDMAP_WRITE, 14), XIW_OK);
	for (uint32_t len : { 0, 1, 2, 14, 17 })
		EXPECT_EQ(cause(RDMAP_SEND, len), XIW_BAD_FPDU_LENGTH) << len;
	EXPECT_EQ(cause(RDMAP_SEND, 18), XIW_OK);
	EXPECT_EQ(cause(RDMAP_SEND, any_len), XIW_OK);
	EXPECT_EQ(cause(RDMAP_READ_REQ, 45), XIW_BAD_FPDU_LENGTH);
	EXPECT_EQ(cause(RDMAP_READ_REQ, 46), XIW_OK);
	EXPECT_EQ(cause(RDMAP_READ_REQ, 47), XIW_BAD_LENGTH);
	EXPECT_EQ(cause(RDMAP_READ_REQ, 50), XIW_BAD_LENGTH);
	EXPECT_EQ(cause(RDMAP_TERMINATE, 21), XIW_BAD_FPDU_LENGTH);
	EXPECT_EQ(cause(RDMAP_TERMINATE, 22), XIW_OK);
	EXPECT_EQ(cause(RDMAP_TERMINATE, 70), XIW_OK);
	EXPECT_EQ(cause(RDMAP_IMM, 25), XIW_BAD_LENGTH);
	EXPECT_EQ(cause(RDMAP_IMM, 27), XIW_BAD_LENGTH);
	EXPECT_EQ(cause(RDMAP_ATOMIC_REQ, 69), XIW_BAD_FPDU_LENGTH);
	EXPECT_EQ(cause(RDMAP_ATOMIC_REQ, 71), XIW_BAD_LENGTH);
	EXPECT_EQ(cause(RDMAP_ATOMIC_RESP, 29), XIW_BAD_FPDU_LENGTH);
	EXPECT_EQ(cause(RDMAP_ATOMIC_RESP, 31), XIW_BAD_LENGTH);
}

/* With several errors at once, the first violated rule decides. */
TEST(xiw_ddp_check, every_combination)
{
	std::vector<uint32_t> lengths(80);
	std::vector<Segment> segments;

	std::ranges::generate(lengths, [len = 0u]() mutable { return len++; });
	lengths.insert(lengths.end(), { 0xff, 0x100, MPA_MAX_ULPDU, any_len });

	for (unsigned int opcode = 0; opcode < RDMAP_NUM_OPCODES; opcode++)
		for (bool tagged : { false, true })
			for (uint32_t qn : { 0u, 1u, 2u, 3u, 4u, 0x01000000u, ~0u })
				for (unsigned int versions = 0; versions < 16; versions++)
					segments.push_back({ .opcode = opcode,
							     .tagged = tagged,
							     .qn = qn,
							     .ddp_version = versions & 3,
							     .rdmap_version = versions >> 2 });

	for (Segment &segment : segments) {
		for (uint32_t len : lengths) {
			segment.ulpdu_len = len;
			Verdict verdict = check(segment);

			ASSERT_EQ(verdict.cause, expected(segment))
				<< "opcode " << segment.opcode << " tagged " << segment.tagged
				<< " qn " << segment.qn << " length " << len << " versions "
				<< segment.ddp_version << " " << segment.rdmap_version;
			ASSERT_EQ(verdict.op, verdict.cause == XIW_OK
						      ? &xiw_rdmap_ops[segment.opcode]
						      : nullptr);
		}
	}
}

/* ASan stops the test if an octet beyond the FPDU is read. */
TEST(xiw_ddp_check, reads_only_what_has_come)
{
	std::mt19937 random(5041);
	unsigned int accepted = 0;

	for (int i = 0; i < 1000000; i++) {
		uint32_t ulpdu_len = random() % 80;
		Octets octets(std::min<size_t>(2 + ulpdu_len, sizeof(xiw_headers)));
		xiw_cause cause;

		std::ranges::generate(octets, [&] { return random() % 4; });
		if (ulpdu_len > 1) {
			octets[2] |= random() % 2 ? 0x81 : 0x01;
			octets[3] = 0x40 | random() % 16;
		}
		ExactCopy copy(octets);
		const xiw_rdmap_op *op = xiw_ddp_check(copy.as<xiw_headers>(), ulpdu_len, &cause);

		ASSERT_EQ(op != nullptr, cause == XIW_OK);
		accepted += op != nullptr;
	}
	EXPECT_GT(accepted, 10000u); /* enough segments reached the last check */
}

} /* namespace */
