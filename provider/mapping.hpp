/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* mapping.hpp - owns one mmap() of the device file */
#ifndef XIW_MAPPING_HPP
#define XIW_MAPPING_HPP

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <sys/mman.h>
#include <sys/types.h>

namespace xiw
{

class Mapping
{
public:
	Mapping() = default;
	Mapping(Mapping &&other) noexcept { *this = std::move(other); }

	Mapping &operator=(Mapping &&other) noexcept
	{
		std::swap(start_, other.start_);
		std::swap(len_, other.len_);
		return *this;
	}

	~Mapping()
	{
		if (start_)
			munmap(start_, len_);
	}

	/* Maps @len bytes that the kernel identifies by @key. Returns 0 or a positive errno. */
	int map(int fd, std::uint64_t key, std::size_t len) noexcept
	{
		static_assert(sizeof(off_t) == sizeof(key), "needs _FILE_OFFSET_BITS=64");
		void *start = mmap(nullptr, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
				   static_cast<off_t>(key));
		if (start == MAP_FAILED)
			return errno;
		start_ = static_cast<std::byte *>(start);
		len_ = len;
		return 0;
	}

	/* @offset is in bytes from the start of the mapping. */
	template <class T>
	T *at(std::size_t offset) const noexcept
	{
		return reinterpret_cast<T *>(start_ + offset);
	}

private:
	std::byte *start_ = nullptr;
	std::size_t len_ = 0;
};

} /* namespace xiw */

#endif /* XIW_MAPPING_HPP */
