/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* input.hpp - reads what the fuzzer made, and stops it when a claim does not hold */
#ifndef XIW_FUZZ_INPUT_HPP
#define XIW_FUZZ_INPUT_HPP

#include <cstdio>
#include <cstdlib>
#include <source_location>
#include <type_traits>

#include "octets.hpp"

namespace fuzz
{

/* Ends the process, which the fuzzer and the replay take for a find. */
inline void require(bool holds, const char *claim,
		    std::source_location where = std::source_location::current())
{
	if (holds)
		return;
	std::fprintf(stderr, "%s:%u: it is not true that %s\n", where.file_name(), where.line(),
		     claim);
	std::abort();
}

/* The octets of one input. Behind its end there are zeros. */
class Input
{
public:
	Input(const uint8_t *data, size_t size) : left_(data, size) {}

	/* The next integer, big-endian as on the wire. */
	template <typename T>
	T take()
	{
		std::make_unsigned_t<T> value = 0;

		for (size_t i = 0; i < sizeof(T); i++)
			value = value << 7 << 1 | octet();
		return value;
	}
	uint8_t octet()
	{
		if (left_.empty())
			return 0;

		uint8_t first = left_.front();

		left_ = left_.subspan(1);
		return first;
	}
	bool flag() { return octet() & 1; }
	/* A number from 0 to @max. */
	uint32_t up_to(uint32_t max) { return take<uint16_t>() % (max + 1); }
	/* The next @len octets, or what is left of them. */
	Octets octets(size_t len)
	{
		auto taken = left_.first(std::min(len, left_.size()));

		left_ = left_.subspan(taken.size());
		return Octets(taken.begin(), taken.end());
	}
	Octets rest() { return octets(left_.size()); }
	bool ended() const { return left_.empty(); }

private:
	std::span<const uint8_t> left_;
};

/* The big-endian integer at an offset. */
template <typename T>
T at(std::span<const uint8_t> octets, size_t offset)
{
	require(offset + sizeof(T) <= octets.size(), "the field was given");
	return Input(octets.data() + offset, sizeof(T)).take<T>();
}

} /* namespace fuzz */

/* Each target defines this. libFuzzer or replay.cpp calls it. */
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif /* XIW_FUZZ_INPUT_HPP */
