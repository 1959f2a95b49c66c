/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* octets.hpp - octet strings, and worked examples of FPDUs and frames */
#ifndef XIW_TEST_OCTETS_HPP
#define XIW_TEST_OCTETS_HPP

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

using Octets = std::vector<uint8_t>;

/* "00 1f | ab" gives three octets. Other characters than hexadecimal digits are ignored. */
inline Octets octets(std::string_view text)
{
	Octets out;

	for (size_t i = 0; i < text.size(); i++)
		if (std::isxdigit(text[i]))
			out.push_back(std::stoi(std::string(text.substr(i++, 2)), nullptr, 16));
	return out;
}

template <typename T>
Octets octets_of(const T &value)
{
	auto *first = reinterpret_cast<const uint8_t *>(&value);

	return Octets(first, first + sizeof(value));
}

inline Octets operator+(Octets left, const Octets &right)
{
	left.insert(left.end(), right.begin(), right.end());
	return left;
}

/* The octets from @first to before @last. */
inline Octets slice(const Octets &from, size_t first, size_t last)
{
	return Octets(from.begin() + first, from.begin() + last);
}

/* A copy on the heap of exactly the right size. ASan reports an access beyond it. */
class ExactCopy
{
public:
	explicit ExactCopy(std::span<const uint8_t> from) : mem_(new uint8_t[from.size()])
	{
		std::ranges::copy(from, mem_.get());
	}

	template <typename T>
	const T *as() const
	{
		return reinterpret_cast<T *>(mem_.get());
	}
	const void *get() const { return mem_.get(); }

private:
	std::unique_ptr<uint8_t[]> mem_;
};

/* Whole FPDUs with their CRC. */
namespace fpdu
{

/* 4 octets to STag 11223344, TO 00007f0012345678 */
inline const Octets write =
	octets("00 12 | c1 40 | 11 22 33 44 | 00 00 7f 00 12 34 56 78 | de ad be ef | b3 b1 8a 6f");

/* "hello", MSN 1 */
inline const Octets send =
	octets("00 17 | 41 43 | 00 00 00 00 | 00 00 00 00 | 00 00 00 01 | 00 00 00 00 |"
	       "68 65 6c 6c 6f | 00 00 00 | b9 90 b1 0c");

/* MSN 1, 4096 octets from 11223344/00007f0012345678 to aabbcc01/1000 */
inline const Octets read_request =
	octets("00 2e | 41 41 | 00 00 00 00 | 00 00 00 01 | 00 00 00 01 | 00 00 00 00 |"
	       "aa bb cc 01 | 00 00 00 00 00 00 10 00 | 00 00 10 00 | 11 22 33 44 |"
	       "00 00 7f 00 12 34 56 78 | 59 06 73 90");

/* 4 octets to aabbcc01/1000 */
inline const Octets read_response =
	octets("00 12 | c1 42 | aa bb cc 01 | 00 00 00 00 00 00 10 00 | 01 02 03 04 | 0d 20 67 5e");

/* DDP, tagged buffer, invalid STag: for a Write as above to STag 11223345 */
inline const Octets terminate_write =
	octets("00 26 | 41 47 | 00 00 00 00 | 00 00 00 02 | 00 00 00 01 | 00 00 00 00 |"
	       "11 00 c0 00 | 00 12 | c1 40 11 22 33 45 00 00 7f 00 12 34 56 78 | db 93 69 6c");

/* RDMAP, remote protection, access rights: for the Read Request above */
inline const Octets terminate_read = octets(
	"00 46 | 41 47 | 00 00 00 00 | 00 00 00 02 | 00 00 00 01 | 00 00 00 00 |"
	"01 02 e0 00 | 00 2e | 41 41 00 00 00 00 00 00 00 01 00 00 00 01 00 00 00 00 |"
	"aa bb cc 01 00 00 00 00 00 00 10 00 00 00 10 00 11 22 33 44 00 00 7f 00 12 34 56 78 |"
	"ac 62 ae fb");

/* MPA, CRC */
inline const Octets terminate_crc =
	octets("00 16 | 41 47 | 00 00 00 00 | 00 00 00 02 | 00 00 00 01 | 00 00 00 00 |"
	       "20 02 00 00 | 7f e4 25 85");

/* FetchAdd 1, MSN 2, id 7, at 11223344/00007f0012345678 */
inline const Octets fetch_add =
	octets("00 46 | 41 4a | 00 00 00 00 | 00 00 00 01 | 00 00 00 02 | 00 00 00 00 |"
	       "00 00 00 00 | 00 00 00 07 | 11 22 33 44 | 00 00 7f 00 12 34 56 78 |"
	       "00 00 00 00 00 00 00 01 | 00 00 00 00 00 00 00 00 |"
	       "00 00 00 00 00 00 00 00 | ff ff ff ff ff ff ff ff | 73 03 61 3f");

/* MSN 1, id 7, original value 2a */
inline const Octets atomic_response =
	octets("00 1e | 41 4b | 00 00 00 00 | 00 00 00 03 | 00 00 00 01 | 00 00 00 00 |"
	       "00 00 00 07 | 00 00 00 00 00 00 00 2a | 4d 18 ff fb");

/* CmpSwap of 4 by 5, MSN 3, id 8, at 11223344/00007f0012345678 */
inline const Octets cmp_swap =
	octets("00 46 | 41 4a | 00 00 00 00 | 00 00 00 01 | 00 00 00 03 | 00 00 00 00 |"
	       "00 00 00 02 | 00 00 00 08 | 11 22 33 44 | 00 00 7f 00 12 34 56 78 |"
	       "00 00 00 00 00 00 00 05 | ff ff ff ff ff ff ff ff |"
	       "00 00 00 00 00 00 00 04 | ff ff ff ff ff ff ff ff | 0b 15 22 e4");

/* MSN 2, all 64 bits */
inline const Octets immediate =
	octets("00 1a | 41 48 | 00 00 00 00 | 00 00 00 00 | 00 00 00 02 | 00 00 00 00 |"
	       "00 00 00 00 00 00 00 01 | a1 a4 94 6c");

/* RTR as a Write without payload */
inline const Octets rtr_write =
	octets("00 0e | c1 40 | 00 00 00 00 | 00 00 00 00 00 00 00 00 | a3 05 72 ab");

/* RTR as an empty Read, MSN 1 */
inline const Octets rtr_read =
	octets("00 2e | 41 41 | 00 00 00 00 | 00 00 00 01 | 00 00 00 01 | 00 00 00 00 |"
	       "00 00 00 00 | 00 00 00 00 00 00 00 00 | 00 00 00 00 | 00 00 00 00 |"
	       "00 00 00 00 00 00 00 00 | f2 c6 dd 3d");

} /* namespace fpdu */

/* Connection frames. */
namespace frame
{

/* revision 2, CRC; peer-to-peer, RTR by Write or Read, IRD and ORD 16; "hi" */
inline const Octets request = octets(
	"4d 50 41 20 49 44 20 52 65 71 20 46 72 61 6d 65 | 50 02 00 06 | 80 10 c0 10 | 68 69");

/* the Reply to this Request: RTR by Write */
inline const Octets reply =
	octets("4d 50 41 20 49 44 20 52 65 70 20 46 72 61 6d 65 | 50 02 00 04 | 80 10 80 10");

/* revision 1, CRC, no private data */
inline const Octets request_rev_1 =
	octets("4d 50 41 20 49 44 20 52 65 71 20 46 72 61 6d 65 | 40 01 00 00");

} /* namespace frame */

#endif /* XIW_TEST_OCTETS_HPP */
