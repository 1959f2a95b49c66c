/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* For tests of requests that gather: a machine with one CPU, and an end that writes. */
#pragma once

#include "../wire/stream.hpp"
#include "cases.hpp"
#include "device.hpp"

#include <rdma/xiw-abi.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

namespace rdma
{

/* While this lives, the second CPU is offline, if the kernel can do that. */
class SecondCpuOffline
{
public:
	SecondCpuOffline() { write(0); }
	SecondCpuOffline(const SecondCpuOffline &) = delete;
	~SecondCpuOffline() { write(1); }

private:
	static void write(int online)
	{
		std::ofstream("/sys/devices/system/cpu/cpu1/online") << online << std::flush;
	}
};

/* While this lives, there is one CPU, or a test build of the module behaves so. */
class OneCpu
{
public:
	OneCpu()
	{
		const auto online = [] { return sysconf(_SC_NPROCESSORS_ONLN); };

		if (online() == 1)
			return;
		if (std::ifstream("/sys/module/xiw/parameters/fail")) {
			pretended_.emplace("fail", "other_cpus");
			return;
		}
		if (online() != 2)
			throw cases::Skip("there are more than two CPUs");
		taken_.emplace();
		if (online() != 1)
			throw cases::Skip("no CPU can be taken offline here");
	}

	/* Then a worker runs beside the program, and timers of a slow kernel end too soon for it. */
	bool is_pretended() const { return pretended_.has_value(); }

private:
	std::optional<cases::Told> pretended_;
	std::optional<SecondCpuOffline> taken_;
};

inline void arm(ibv_cq *cq)
{
	if (int err = ibv_req_notify_cq(cq, 0))
		fail("ibv_req_notify_cq", err);
}

/* An end that writes numbers to one place, and what it shares with the kernel. */
class Writer
{
public:
	/* Offsets of xiw-abi.h's control words in the mapping of a queue pair, in words. */
	static constexpr std::size_t sq_produced = 0, sq_consumed = 16, sq_flags = 17,
				     rq_produced = 32;
	/* On each machine the first half is not 0, which rq_produced is. */
	static constexpr std::uint64_t wr_id = 1ull << 32 | 1;
	static constexpr unsigned int depth = 64, half = depth / 2;

	/* It finds its ring by the number of its first Writes, which no other writer has made. */
	Writer(End &end, std::uint64_t to, std::uint32_t rkey, std::uint32_t first = 3)
		: end_(end), from_(end.pd(), 64), to_(to), rkey_(rkey)
	{
		while (posted_ < first)
			write();
		drain();
		ring_ = the_rings([first](Words words) {
			return words[sq_produced] == first && words[rq_produced] == 0;
		});
	}

	End &end() { return end_; }
	std::uint64_t last() const { return posted_; }
	std::uint32_t flags() const { return ring_[sq_flags]; }
	bool gathers() const { return flags() & XIW_DOORBELL_GATHER; }
	bool is_sent() const { return ring_[sq_consumed] == ring_[sq_produced]; }
	/* Whether what was posted last waits for a doorbell or the timer, and for no worker. */
	bool waits() const { return !is_sent() && gathers(); }

	void post(ibv_wr_opcode opcode, unsigned int flags = 0)
	{
		ibv_sge sge = from_.sge(0, 8);
		ibv_send_wr wr = signaled(opcode, sge, wr_id);

		std::copy_n(reinterpret_cast<const std::uint8_t *>(&++posted_), 8,
			    from_.bytes().data());
		wr.send_flags |= flags;
		wr.wr.rdma = { to_, rkey_ };
		if (int err = end_.post(wr))
			fail("a request is refused", err);
	}

	void write() { post(IBV_WR_RDMA_WRITE, IBV_SEND_INLINE); }

	std::uint64_t outstanding() const { return posted_ - polled_; }

	void poll(Where where = Where::current())
	{
		ibv_wc wc;
		const int found = ibv_poll_cq(end_.send_cq(), 1, &wc);

		require(found >= 0 && (!found || wc.status == IBV_WC_SUCCESS), "a request succeeds",
			where);
		polled_ += static_cast<unsigned int>(found);
	}

	/* All that was posted completes, well or at least once. */
	void drain(bool well = true, Where where = Where::current())
	{
		for (; polled_ < posted_; polled_++) {
			const ibv_wc wc = next_completion(end_.send_cq(), 10000, where);

			require(!well || wc.status == IBV_WC_SUCCESS, "a request succeeds", where);
		}
	}

	/* What was posted does not complete, because the queue pair was reset. */
	void forget() { polled_ = posted_; }

	void drain_if_half_full()
	{
		if (outstanding() == half)
			drain();
	}

	/* Writes until the kernel lets requests gather. */
	void gather(Where where = Where::current())
	{
		for (int i = 0; !gathers(); i++) {
			require(i < 10000, "requests gather", where);
			drain_if_half_full();
			write();
		}
	}

	/* Writes as fast as it can. If @awaited is set, an event of it is awaited all the time. */
	void gathers_nothing(ibv_cq *awaited = nullptr, Where where = Where::current())
	{
		for (int i = 0; i < 200; i++) {
			drain_if_half_full();
			if (awaited)
				arm(awaited);
			write();
			require(!gathers(), "no request gathers", where);
		}
		drain();
	}

private:
	End &end_;
	Buffer from_;
	std::uint64_t to_;
	std::uint32_t rkey_;
	Words ring_;
	std::uint64_t posted_ = 0, polled_ = 0;
};

/* What a counter of a device has counted since this was made. */
class Count
{
public:
	Count(ibv_context *device, const std::string &name)
		: device_(device), name_(name), before_(device_counter(device, name))
	{
	}

	std::uint64_t since() const { return device_counter(device_, name_) - before_; }

private:
	ibv_context *device_;
	std::string name_;
	std::uint64_t before_;
};

/* While this lives, requests of new connections may gather for this long. */
class GatherTime
{
public:
	GatherTime(const std::string &address, const std::string &us)
		: time_(setting_file(Pair(address).a().qp()->context->device, "gather_us"), us)
	{
	}

private:
	wire::Setting time_;
};

/* Two ends, of which one writes to the other. */
struct Stream {
	explicit Stream(const std::string &address, const QpOptions &options = {},
			std::uint32_t first = 3)
		: pair(address, options, {}), into(pair.b().pd(), 64),
		  writer(pair.a(), into.address(), into.mr()->rkey, first)
	{
	}

	std::uint64_t seen()
	{
		return std::atomic_ref(*reinterpret_cast<std::uint64_t *>(into.bytes().data()))
			.load();
	}

	Pair pair;
	Buffer into;
	Writer writer;
};

} /* namespace rdma */
