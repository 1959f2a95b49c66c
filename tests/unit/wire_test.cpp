// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* wire_test.cpp - layouts of headers, against whole FPDUs worked out octet by octet */

/* The header comes first, to test that it compiles alone. */
extern "C" {
#include <asm/byteorder.h>
#include "wire/wire.h"
}

#include <gtest/gtest.h>

#include "octets.hpp"

namespace
{

/* CRC32c, reflected: RFC 5044 section 4.4 refers to RFC 3385. */
uint32_t crc32c(std::span<const uint8_t> octets)
{
	uint32_t crc = ~0u;

	for (uint8_t octet : octets) {
		crc ^= octet;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	return ~crc;
}

/* Makes an FPDU from a ULPDU, with the lengths that wire.h computes. */
Octets framed(const Octets &ulpdu)
{
	xiw_fpdu_head head = { .ulpdu_len = cpu_to_be16(ulpdu.size()) };
	Octets out = octets_of(head) + ulpdu;

	out.resize(out.size() + xiw_fpdu_pad(ulpdu.size()));
	uint32_t crc = crc32c(out);
	for (int i = 0; i < MPA_CRC_LEN; i++)
		out.push_back(crc >> 8 * i);
	EXPECT_EQ(out.size(), xiw_fpdu_len(ulpdu.size()));
	return out;
}

Octets tagged(uint8_t opcode, uint32_t stag, uint64_t to)
{
	return octets_of(xiw_ddp_tagged{
		.ctrl = { .ddp = DDP_TAGGED | DDP_LAST | DDP_VERSION,
			  .rdmap = uint8_t(RDMAP_VERSION | opcode) },
		.stag = cpu_to_be32(stag),
		.to = cpu_to_be64(to),
	});
}

Octets untagged(uint8_t opcode, uint32_t qn, uint32_t msn)
{
	return octets_of(xiw_ddp_untagged{
		.ctrl = { .ddp = DDP_LAST | DDP_VERSION, .rdmap = uint8_t(RDMAP_VERSION | opcode) },
		.inv_stag = 0,
		.qn = cpu_to_be32(qn),
		.msn = cpu_to_be32(msn),
		.mo = 0,
	});
}

const uint32_t stag = 0x11223344, sink_stag = 0xaabbcc01;
const uint64_t to = 0x7f0012345678, sink_to = 0x1000;

Octets read_request()
{
	return octets_of(xiw_read_req{
		.sink_stag = cpu_to_be32(sink_stag),
		.sink_to = cpu_to_be64(sink_to),
		.size = cpu_to_be32(4096),
		.src_stag = cpu_to_be32(stag),
		.src_to = cpu_to_be64(to),
	});
}

Octets terminate_header(uint8_t layer_etype, uint8_t code, uint8_t hdrct)
{
	return untagged(RDMAP_TERMINATE, DDP_QN_TERMINATE, 1) + octets_of(xiw_terminate{
									.layer_etype = layer_etype,
									.code = code,
									.hdrct = hdrct,
									.reserved = 0,
								});
}

TEST(crc32c, check_value)
{
	EXPECT_EQ(crc32c(octets("31 32 33 34 35 36 37 38 39")), 0xe3069283);
	EXPECT_EQ(crc32c(Octets(32)), 0x8a9136aa);
}

TEST(xiw_mpa_frame, request_and_reply)
{
	xiw_mpa_frame hdr = {
		.key = {}, .flags = MPA_FLAG_CRC, .revision = MPA_REV_1, .pd_length = 0
	};
	memcpy(hdr.key, MPA_KEY_REQUEST, MPA_KEY_LEN);
	EXPECT_EQ(octets_of(hdr), frame::request_rev_1);

	memcpy(hdr.key, MPA_KEY_REPLY, MPA_KEY_LEN);
	hdr.flags |= MPA_FLAG_ENHANCED;
	hdr.revision = MPA_REV_2;
	hdr.pd_length = cpu_to_be16(4);
	xiw_mpa_enhanced enh = { .ird = cpu_to_be16(MPA_ENH_FLAG_HIGH | 16),
				 .ord = cpu_to_be16(MPA_ENH_FLAG_HIGH | 16) };
	EXPECT_EQ(octets_of(hdr) + octets_of(enh), frame::reply);
}

TEST(xiw_fpdu_pad, fills_four)
{
	EXPECT_EQ(xiw_fpdu_pad(2), 0u);
	EXPECT_EQ(xiw_fpdu_pad(1), 1u);
	EXPECT_EQ(xiw_fpdu_pad(0), 2u);
	EXPECT_EQ(xiw_fpdu_pad(3), 3u);
	for (unsigned int len = 0; len <= UINT16_MAX; len++) {
		ASSERT_LT(xiw_fpdu_pad(len), 4u) << len;
		ASSERT_EQ((2 + len + xiw_fpdu_pad(len)) % 4, 0u) << len;
	}
}

TEST(xiw_fpdu_len, counts_head_pad_and_crc)
{
	EXPECT_EQ(xiw_fpdu_len(0), 8u);
	EXPECT_EQ(xiw_fpdu_len(14), 20u);
	EXPECT_EQ(xiw_fpdu_len(23), 32u);
	EXPECT_EQ(xiw_fpdu_len(MPA_MAX_ULPDU), 64776u);
	EXPECT_EQ(xiw_fpdu_len(UINT16_MAX), 65544u);
}

TEST(xiw_ddp_tagged, write)
{
	EXPECT_EQ(framed(tagged(RDMAP_WRITE, stag, to) + octets("de ad be ef")), fpdu::write);
	EXPECT_EQ(framed(tagged(RDMAP_WRITE, 0, 0)), fpdu::rtr_write);
}

TEST(xiw_ddp_tagged, read_response)
{
	EXPECT_EQ(framed(tagged(RDMAP_READ_RESP, sink_stag, sink_to) + octets("01 02 03 04")),
		  fpdu::read_response);
}

TEST(xiw_ddp_untagged, send)
{
	EXPECT_EQ(framed(untagged(RDMAP_SEND, DDP_QN_SEND, 1) + octets("68 65 6c 6c 6f")),
		  fpdu::send);
}

TEST(xiw_ddp_untagged, every_field)
{
	EXPECT_EQ(
		octets_of(xiw_ddp_untagged{
			.ctrl = { .ddp = DDP_VERSION, .rdmap = RDMAP_VERSION | RDMAP_SEND_SE_INV },
			.inv_stag = cpu_to_be32(0x01020304),
			.qn = cpu_to_be32(0x05060708),
			.msn = cpu_to_be32(0x090a0b0c),
			.mo = cpu_to_be32(0x0d0e0f10),
		}),
		octets("01 46 | 01 02 03 04 | 05 06 07 08 | 09 0a 0b 0c | 0d 0e 0f 10"));
}

TEST(xiw_read_req, read_request)
{
	EXPECT_EQ(framed(untagged(RDMAP_READ_REQ, DDP_QN_READ, 1) + read_request()),
		  fpdu::read_request);
	EXPECT_EQ(framed(untagged(RDMAP_READ_REQ, DDP_QN_READ, 1) + octets_of(xiw_read_req())),
		  fpdu::rtr_read);
}

TEST(xiw_terminate, with_and_without_headers)
{
	const uint8_t md = RDMAP_TERM_M | RDMAP_TERM_D;

	EXPECT_EQ(framed(terminate_header(0x20, 0x02, 0)), fpdu::terminate_crc);
	EXPECT_EQ(framed(terminate_header(0x11, 0x00, md) + octets("00 12") +
			 tagged(RDMAP_WRITE, 0x11223345, to)),
		  fpdu::terminate_write);
	EXPECT_EQ(framed(terminate_header(0x01, 0x02, md | RDMAP_TERM_R) + octets("00 2e") +
			 untagged(RDMAP_READ_REQ, DDP_QN_READ, 1) + read_request()),
		  fpdu::terminate_read);
}

TEST(xiw_atomic_req, fetch_add)
{
	EXPECT_EQ(framed(untagged(RDMAP_ATOMIC_REQ, DDP_QN_READ, 2) +
			 octets_of(xiw_atomic_req{
				 .aopcode = cpu_to_be32(RDMAP_ATOMIC_FETCH_ADD),
				 .request_id = cpu_to_be32(7),
				 .stag = cpu_to_be32(stag),
				 .to = cpu_to_be64(to),
				 .add_swap_data = cpu_to_be64(1),
				 .add_swap_mask = 0,
				 .compare_data = 0,
				 .compare_mask = ~0ull,
			 })),
		  fpdu::fetch_add);
}

TEST(xiw_atomic_req, cmp_swap)
{
	EXPECT_EQ(framed(untagged(RDMAP_ATOMIC_REQ, DDP_QN_READ, 3) +
			 octets_of(xiw_atomic_req{
				 .aopcode = cpu_to_be32(RDMAP_ATOMIC_CMP_SWAP),
				 .request_id = cpu_to_be32(8),
				 .stag = cpu_to_be32(stag),
				 .to = cpu_to_be64(to),
				 .add_swap_data = cpu_to_be64(5),
				 .add_swap_mask = ~0ull,
				 .compare_data = cpu_to_be64(4),
				 .compare_mask = ~0ull,
			 })),
		  fpdu::cmp_swap);
}

TEST(xiw_atomic_resp, original_value)
{
	EXPECT_EQ(framed(untagged(RDMAP_ATOMIC_RESP, DDP_QN_ATOMIC_RESP, 1) +
			 octets_of(xiw_atomic_resp{ .request_id = cpu_to_be32(7),
						    .original = cpu_to_be64(0x2a) })),
		  fpdu::atomic_response);
}

TEST(xiw_imm_data, takes_64_bits)
{
	EXPECT_EQ(framed(untagged(RDMAP_IMM, DDP_QN_SEND, 2) +
			 octets_of(xiw_imm_data{ .imm = 0, .zero = cpu_to_be32(1) })),
		  fpdu::immediate);
	EXPECT_EQ(octets_of(xiw_imm_data{ .imm = cpu_to_be32(0x01020304), .zero = 0 }),
		  octets("01 02 03 04 00 00 00 00"));
}

/* struct xiw_headers has each field at the same offset as the structs above. */
TEST(xiw_headers, overlays_every_message)
{
	auto headers = [](const Octets &fpdu) {
		xiw_headers hdr = {};
		memcpy(&hdr, fpdu.data(), std::min(fpdu.size(), sizeof(hdr)));
		return hdr;
	};

	EXPECT_EQ(be16_to_cpu(headers(fpdu::send).mpa.ulpdu_len), 23);
	EXPECT_EQ(headers(fpdu::send).ctrl.rdmap, RDMAP_VERSION | RDMAP_SEND);
	EXPECT_EQ(be64_to_cpu(headers(fpdu::write).tagged.to), to);
	EXPECT_EQ(be32_to_cpu(headers(fpdu::fetch_add).untagged.msn), 2u);
	EXPECT_EQ(be64_to_cpu(headers(fpdu::read_request).read.src_to), to);
	EXPECT_EQ(headers(fpdu::terminate_crc).term.layer_etype, 0x20);
	EXPECT_EQ(be64_to_cpu(headers(fpdu::cmp_swap).atomic.compare_data), 4u);
	EXPECT_EQ(headers(fpdu::cmp_swap).atomic.compare_mask, ~0ull);
	EXPECT_EQ(be64_to_cpu(headers(fpdu::atomic_response).atomic_resp.original), 0x2au);
	EXPECT_EQ(be32_to_cpu(headers(fpdu::immediate).imm.zero), 1u);
}

} /* namespace */
