/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Memory registered with on-demand paging, and a connection through which a peer accesses it. */
#pragma once

#include "cases.hpp"
#include "device.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>

namespace odp
{

constexpr std::size_t page = 4096;
constexpr std::uint32_t size = 64 * page;
constexpr int all_rights = rdma::Buffer::all_rights | IBV_ACCESS_REMOTE_ATOMIC;

/* Anonymous memory that has not been touched yet, or a shared mapping of a file. */
class Map
{
public:
	explicit Map(int file = -1, int protection = PROT_READ | PROT_WRITE)
		: start_(mmap(nullptr, size, protection,
			      file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, file, 0))
	{
		rdma::require(start_ != MAP_FAILED, "memory is mapped");
	}

	Map(const Map &) = delete;
	~Map() { munmap(start_, size); }

	std::span<std::uint8_t> bytes() { return { static_cast<std::uint8_t *>(start_), size }; }
	std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(start_); }

	void fill(std::uint32_t seed) { rdma::fill(bytes(), seed); }

	bool holds(std::uint32_t seed, std::size_t offset = 0, std::size_t length = size)
	{
		return rdma::holds(bytes(), seed, offset, length);
	}

	bool is_zero() { return rdma::is_zero(bytes()); }

	/* The number of pages that are present. */
	std::size_t resident()
	{
		std::uint8_t pages[size / page];

		rdma::require(!mincore(start_, size, pages), "mincore");
		return static_cast<std::size_t>(std::ranges::count(pages, 1));
	}

	/* Drops all pages. They are zero when the process touches them again. */
	void forget() { rdma::require(!madvise(start_, size, MADV_DONTNEED), "madvise"); }

	/* Unmaps a part. */
	void punch(std::size_t offset, std::size_t length)
	{
		rdma::require(!munmap(&bytes()[offset], length), "munmap");
	}

	/* Maps new pages in the place of the old ones. */
	void replace()
	{
		void *fresh = mmap(start_, size, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

		rdma::require(fresh == start_, "memory is replaced");
	}

private:
	void *start_;
};

/* Memory of b, registered on demand, and a connection through which a accesses it. */
struct Setting {
	explicit Setting(const std::string &address, int access = all_rights, int file = -1,
			 int protection = PROT_READ | PROT_WRITE)
		: pair(address), a(pair.a()), b(pair.b()), map(file, protection),
		  mr(reg(b.pd(), map, access)), local(a.pd(), size)
	{
		local.fill(1);
	}

	static rdma::Mr reg(ibv_pd *pd, const Map &map, int access = all_rights)
	{
		rdma::Mr mr(ibv_reg_mr(pd, reinterpret_cast<void *>(map.address()), size,
				       access | IBV_ACCESS_ON_DEMAND));

		if (!mr && errno == EOPNOTSUPP)
			throw cases::Skip("the kernel has no on-demand paging");
		rdma::require(mr != nullptr, "memory is registered on demand");
		return mr;
	}

	ibv_sge sge(std::size_t offset = 0, std::uint32_t length = size) const
	{
		return { map.address() + offset, length, mr->lkey };
	}

	/* Writes all of the memory. */
	void write(std::uint32_t seed, rdma::Where where = rdma::Where::current())
	{
		rdma::Buffer back(a.pd(), 1);

		local.fill(seed);
		a.write_and_read(local.sge(0, size), back.sge(0, 1), map.address(), mr->rkey,
				 where);
	}

	void read(rdma::Where where = rdma::Where::current())
	{
		a.read(local.sge(0, size), map.address(), mr->rkey, 3);
		rdma::expect_completion(a.send_cq(), IBV_WC_SUCCESS, 3, where);
	}

	int advise(ibv_advise_mr_advice advice, ibv_sge sge)
	{
		return ibv_advise_mr(b.pd(), advice, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);
	}

	rdma::Pair pair;
	rdma::End &a;
	rdma::End &b;
	Map map;
	rdma::Mr mr;
	rdma::Buffer local;
};

/* The number of accesses that missed pages, of all processes. */
inline std::uint64_t page_fetches(ibv_pd *pd)
{
	return rdma::device_counter(pd->context, "page_fetches");
}

} /* namespace odp */
