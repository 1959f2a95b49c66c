/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Long messages arrive or are refused; no length wraps. */
#include "cases.hpp"
#include "rdma.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <format>
#include <vector>

using namespace rdma;

namespace
{

/* Length of a long message: MESSAGE_BYTES, or what an emulated machine sends in seconds. */
std::uint32_t message_length()
{
	const char *wanted = std::getenv("MESSAGE_BYTES");

	return wanted ? static_cast<std::uint32_t>(std::strtoul(wanted, nullptr, 10))
		      : (64 << 20) + 1;
}

/* Longer than the theme's LIMIT, which ends the wait. */
constexpr int patience_ms = 1000 * 1000;

/* A large region that needs little memory: it maps one small piece over and over. The piece has a
 * prime number of pages, so data from a wrong offset is detected unless the error is a multiple of
 * the piece's size.
 */
class Repeated
{
public:
	static constexpr std::size_t piece = 509 * 4096;

	Repeated(ibv_pd *pd, std::size_t least) : size_((least / piece + 1) * piece)
	{
		int fd = memfd_create("piece", 0);
		void *all = mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		require(fd >= 0 && !ftruncate(fd, piece) && all != MAP_FAILED, "room");
		start_ = static_cast<std::uint8_t *>(all);
		for (std::size_t offset = 0; offset < size_; offset += piece)
			require(mmap(start_ + offset, piece, PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED,
				"the piece is mapped");
		close(fd);
		fill({ start_, piece }, 2);
		mr_.reset(ibv_reg_mr(pd, start_, size_, Buffer::all_rights));
		if (!mr_)
			fail("ibv_reg_mr", errno);
	}

	~Repeated()
	{
		mr_.reset();
		munmap(start_, size_);
	}

	std::span<const std::uint8_t> bytes() const { return { start_, size_ }; }
	std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(start_); }
	std::uint32_t rkey() const { return mr_->rkey; }
	ibv_sge sge(std::uint32_t length) const { return { address(), length, mr_->lkey }; }

private:
	std::uint8_t *start_;
	std::size_t size_;
	Mr mr_;
};

/* Memory for a received message, without repetition, and a page behind it. A byte that was placed
 * at a wrong offset is missing at the right one.
 */
class Sink
{
public:
	Sink(ibv_pd *pd, std::uint32_t length)
		: length_(length), buffer_(pd, std::size_t{ length } + 4096)
	{
		std::ranges::fill(buffer_.bytes(), untouched);
	}

	ibv_sge sge() const { return buffer_.sge(0, length_); }
	std::uint64_t address() const { return buffer_.address(); }
	std::uint32_t rkey() const { return buffer_.mr()->rkey; }

	/* All bytes of the message are in place, and nothing was written behind it. */
	void expect(const Repeated &sent) const
	{
		auto [here, there] = std::ranges::mismatch(buffer_.bytes().first(length_),
							   sent.bytes().first(length_));

		require(here == buffer_.bytes().begin() + length_,
			std::format("byte {} of the message is in place",
				    here - buffer_.bytes().begin()));
		require(std::ranges::all_of(buffer_.bytes().subspan(length_),
					    [](auto octet) { return octet == untouched; }),
			"nothing is behind its last byte");
	}

private:
	static constexpr std::uint8_t untouched = 0xa5;

	std::uint32_t length_;
	Buffer buffer_;
};

void long_write(const std::string &address)
{
	const std::uint32_t length = message_length();
	Pair pair(address);
	Repeated from(pair.a().pd(), length);
	Sink to(pair.b().pd(), length);

	pair.a().write(from.sge(length), to.address(), to.rkey(), 1);
	require(next_completion(pair.a().send_cq(), patience_ms).status == IBV_WC_SUCCESS,
		"the message is written");
	pair.expect_alive();
	to.expect(from);
}

void long_read(const std::string &address)
{
	const std::uint32_t length = message_length();
	Pair pair(address);
	Sink to(pair.a().pd(), length);
	Repeated from(pair.b().pd(), length);

	pair.a().read(to.sge(), from.address(), from.rkey(), 1);

	ibv_wc wc = next_completion(pair.a().send_cq(), patience_ms);

	require(wc.status == IBV_WC_SUCCESS && wc.byte_len == length, "the message is read");
	to.expect(from);
	pair.expect_alive();
}

void long_send(const std::string &address)
{
	const std::uint32_t length = message_length();
	Pair pair(address);
	Repeated from(pair.a().pd(), length);
	Sink to(pair.b().pd(), length);

	pair.b().receive(to.sge(), 1);
	pair.a().send(from.sge(length), 2);
	require(next_completion(pair.a().send_cq(), patience_ms).status == IBV_WC_SUCCESS,
		"the message is sent");

	ibv_wc wc = next_completion(pair.b().recv_cq(), patience_ms);

	require(wc.status == IBV_WC_SUCCESS && wc.byte_len == length, "the message has arrived");
	to.expect(from);
}

/* A request with 16 SGEs of this length, one for a Read, is refused or completes in error. */
void refuse(const std::string &address, ibv_wr_opcode opcode, std::uint32_t length, bool at_post)
{
	Pair pair(address, { .send_sge = 16 });
	Repeated from(pair.a().pd(), 2 * Repeated::piece);
	std::vector<ibv_sge> sges(opcode == IBV_WR_RDMA_READ ? 1 : 16, from.sge(length));
	ibv_send_wr wr = {};

	wr.wr_id = 1;
	wr.sg_list = sges.data();
	wr.num_sge = static_cast<int>(sges.size());
	wr.opcode = opcode;
	wr.send_flags = IBV_SEND_SIGNALED;
	if (at_post) {
		require(pair.a().post(wr) == EINVAL, "the post is refused");
		pair.expect_alive();
		return;
	}
	require(!pair.a().post(wr), "the request is posted");
	expect_completion(pair.a().send_cq(), IBV_WC_LOC_LEN_ERR, 1);
}

void two_gigabytes(const std::string &address)
{
	refuse(address, IBV_WR_SEND, 1 << 27, false);
	refuse(address, IBV_WR_RDMA_WRITE, (1u << 28) - 1, false);
	refuse(address, IBV_WR_RDMA_READ, 1u << 31, false);
}

/* The longest message is allowed. It is refused for its STag instead, so that nothing is sent. */
void one_octet_less(const std::string &address)
{
	Pair pair(address);
	Repeated from(pair.a().pd(), 1);
	ibv_sge sge = from.sge(0x7fffffff);
	ibv_send_wr wr = {};

	sge.lkey ^= 1;
	wr.wr_id = 1;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.send_flags = IBV_SEND_SIGNALED;
	require(!pair.a().post(wr), "the request is posted");
	expect_completion(pair.a().send_cq(), IBV_WC_LOC_PROT_ERR, 1);
}

void four_gigabytes(const std::string &address)
{
	refuse(address, IBV_WR_SEND, 1 << 28, true);
	refuse(address, IBV_WR_RDMA_WRITE, UINT32_MAX, true);
}

const cases::Case all[] = {
	{ "a long message is written", long_write },
	{ "a long message is read", long_read },
	{ "a long message is sent", long_send },
	{ "an octet less than two gigabytes is not too long", one_octet_less },
	{ "two gigabytes complete in error", two_gigabytes },
	{ "four gigabytes are not posted", four_gigabytes },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
