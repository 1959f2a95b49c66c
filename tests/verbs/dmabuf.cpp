/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Memory exported by another driver, here udmabuf, is registered and used like other memory. */
#include "cases.hpp"
#include "rdma.hpp"

#include <fcntl.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

using namespace rdma;

namespace
{

class File
{
public:
	explicit File(int fd) : fd_(fd) {}
	File(const File &) = delete;
	~File() { close(fd_); }

	operator int() const { return fd_; }

private:
	int fd_;
};

/* Memory of this process, and the file descriptor that exports it. */
class Exported
{
public:
	static constexpr std::size_t size = 64 * 4096;

	Exported() : memory_(memfd_create("exported", MFD_ALLOW_SEALING)), file_(export_memory())
	{
		void *start = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory_, 0);

		require(start != MAP_FAILED, "the memory is mapped");
		bytes_ = { static_cast<std::uint8_t *>(start), size };
	}

	~Exported() { munmap(bytes_.data(), size); }

	int file() const { return file_; }
	std::span<std::uint8_t> bytes() { return bytes_; }

private:
	int export_memory()
	{
		File driver(open("/dev/udmabuf", O_RDWR));
		udmabuf_create what = {};

		if (driver < 0)
			throw cases::Skip("no /dev/udmabuf");
		require(!ftruncate(memory_, size), "the memory has a size");
		require(!fcntl(memory_, F_ADD_SEALS, F_SEAL_SHRINK), "the memory is sealed");
		what.memfd = static_cast<std::uint32_t>(static_cast<int>(memory_));
		what.size = size;

		int fd = ioctl(driver, UDMABUF_CREATE, &what);

		if (fd < 0)
			fail("UDMABUF_CREATE", errno);
		return fd;
	}

	File memory_;
	File file_;
	std::span<std::uint8_t> bytes_;
};

Mr register_part(ibv_pd *pd, const Exported &exported, std::uint64_t offset, std::size_t length,
		 std::uint64_t iova, int access = Buffer::all_rights)
{
	return Mr(ibv_reg_dmabuf_mr(pd, offset, length, iova, exported.file(), access));
}

void peer_reaches_it(const std::string &address)
{
	constexpr std::uint64_t iova = 0x5008, offset = 3 * 4096 + 8;
	constexpr std::uint32_t length = 20 * 4096;
	Pair pair(address);
	Exported exported;
	Mr mr = register_part(pair.b().pd(), exported, offset, length, iova);
	Buffer local(pair.a().pd(), length), back(pair.a().pd(), length);

	require(mr != nullptr, "exported memory is registered");
	local.fill(3);
	pair.a().write(local.sge(0, length), iova, mr->rkey, 1);
	pair.a().read(back.sge(0, length), iova, mr->rkey, 2);
	expect_completion(pair.a().send_cq(), IBV_WC_SUCCESS, 1);
	expect_completion(pair.a().send_cq(), IBV_WC_SUCCESS, 2);
	require(back.holds(3, 0, length), "the data is read back");
	require(exported.bytes()[offset - 1] == 0 && exported.bytes()[offset + length] == 0,
		"the bytes around it are untouched");
	for (std::size_t i = 0; i < length; i += 997)
		require(exported.bytes()[offset + i] == pattern(3, i), "the data is in the memory");
	pair.a().write(local.sge(0, 1), iova + length, mr->rkey, 3);
	pair.expect_disconnect();
}

void own_requests_use_it(const std::string &address)
{
	Pair pair(address);
	Exported from, to;
	Mr source = register_part(pair.a().pd(), from, 0, Exported::size, 0, 0);
	Mr sink = register_part(pair.b().pd(), to, 0, Exported::size, 0, IBV_ACCESS_LOCAL_WRITE);

	require(source && sink, "exported memory is registered");
	for (std::size_t i = 0; i < Exported::size; i++)
		from.bytes()[i] = pattern(5, i);
	pair.b().receive({ 0, Exported::size, sink->lkey }, 1);
	pair.a().send({ 0, Exported::size, source->lkey }, 2);
	expect_completion(pair.a().send_cq(), IBV_WC_SUCCESS, 2);
	expect_completion(pair.b().recv_cq(), IBV_WC_SUCCESS, 1);
	require(std::ranges::equal(from.bytes(), to.bytes()), "the message has arrived");
}

/* The registration holds a reference to the memory after the process has closed the file. */
void outlives_its_file(const std::string &address)
{
	Pair pair(address);
	Buffer local(pair.a().pd(), 64);
	std::optional<Exported> exported(std::in_place);
	Mr mr = register_part(pair.b().pd(), *exported, 0, Exported::size, 0);

	require(mr != nullptr, "exported memory is registered");
	exported.reset();
	pair.a().write(local.sge(0, 64), 0, mr->rkey, 1);
	pair.a().read(local.sge(0, 64), 0, mr->rkey, 2);
	expect_completion(pair.a().send_cq(), IBV_WC_SUCCESS, 1);
	expect_completion(pair.a().send_cq(), IBV_WC_SUCCESS, 2);
}

void bad_parts_are_refused(const std::string &address)
{
	Pair pair(address);
	ibv_pd *pd = pair.b().pd();
	Exported exported;
	File other(memfd_create("other", 0));

	require(!register_part(pd, exported, 0, Exported::size + 1, 0), "one byte too many");
	require(!register_part(pd, exported, Exported::size, 1, 0), "a part behind the end");
	require(!register_part(pd, exported, -4096ul, 8192, 0), "a range that wraps");
	require(!register_part(pd, exported, 0, 0, 0), "an empty part");
	require(!ibv_reg_dmabuf_mr(pd, 0, 4096, 0, other, Buffer::all_rights), "not a dma-buf");
	require(!ibv_reg_dmabuf_mr(pd, 0, 4096, 0, -1, Buffer::all_rights), "not a file");
}

const cases::Case all[] = {
	{ "the peer reaches a part under its own address", peer_reaches_it },
	{ "local requests use it", own_requests_use_it },
	{ "it outlives its file", outlives_its_file },
	{ "parts that are not there are refused", bad_parts_are_refused },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
