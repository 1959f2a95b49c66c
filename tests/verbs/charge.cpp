/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Memory that the kernel gives to a process is charged to the control group of that process. */
#include "cases.hpp"
#include "rdma.hpp"

#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace rdma;

namespace
{

using Dm = Owner<ibv_dm, ibv_free_dm>;

constexpr std::size_t mebibyte = 1024 * 1024;

/* Where the kernel shows its control groups; mounted for this program. */
class Hierarchy
{
public:
	Hierarchy()
	{
		char name[] = "/tmp/charge-XXXXXX";

		require(mkdtemp(name), "a folder");
		path_ = name;
		mounted_ = !mount("none", name, "cgroup2", 0, nullptr);
	}

	~Hierarchy()
	{
		if (mounted_)
			umount(path_.c_str());
		rmdir(path_.c_str());
	}

	const std::filesystem::path &path() const { return path_; }

	bool knows(const std::string &controller) const
	{
		std::ifstream all(path_ / "cgroup.controllers");

		for (std::string one; all >> one;)
			if (one == controller)
				return true;
		return false;
	}

private:
	std::filesystem::path path_;
	bool mounted_;
};

/* This process in a control group of its own, until the end. */
class Group
{
public:
	Group()
	{
		if (!root_.knows("memory"))
			throw cases::Skip("the kernel has no control groups of memory");
		write(root_.path() / "cgroup.subtree_control", "+memory");
		std::filesystem::create_directory(own_);
		write(own_ / "cgroup.procs", "0");
	}

	~Group()
	{
		write(root_.path() / "cgroup.procs", "0");
		rmdir(own_.c_str());
	}

	std::size_t charged() const
	{
		std::size_t octets = 0;

		std::ifstream(own_ / "memory.current") >> octets;
		return octets;
	}

private:
	static void write(const std::filesystem::path &file, const char *text)
	{
		std::ofstream(file) << text;
	}

	Hierarchy root_;
	std::filesystem::path own_ = root_.path() / std::to_string(getpid());
};

/* Makes something of this size and destroys it. */
void expect_charge(std::size_t octets, auto make)
{
	Group group;
	std::size_t before = group.charged();

	{
		auto object = make();

		require(object != nullptr, "it is made");
		require(group.charged() >= before + octets, "all of it is charged");
	}
	require(group.charged() < before + octets / 2, "the charge ends with it");
}

void rings(const std::string &address)
{
	Pair pair(address);

	expect_charge(16 * mebibyte, [&] {
		return Cq(ibv_create_cq(pair.a().id()->verbs, 16 * mebibyte / 64, nullptr, nullptr,
					0));
	});
}

void device_memory(const std::string &address)
{
	Pair pair(address);

	expect_charge(8 * mebibyte, [&] {
		ibv_alloc_dm_attr attr = { 8 * mebibyte, 0, 0 };

		return Dm(ibv_alloc_dm(pair.a().id()->verbs, &attr));
	});
}

const cases::Case all[] = {
	{ "rings are charged", rings },
	{ "device memory is charged", device_memory },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
