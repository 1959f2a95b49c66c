/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A file system of the kernel, such as debugfs, mounted in a folder of its own. */
#pragma once

#include "rdma.hpp"

#include <sys/mount.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

class Mount
{
public:
	/* If the kernel does not know this file system, the folder stays empty. */
	explicit Mount(const std::string &type)
	{
		char name[] = "/tmp/xiw-XXXXXX";

		rdma::require(mkdtemp(name), "a folder");
		path_ = name;
		mounted_ = !mount("none", name, type.c_str(), 0, nullptr);
	}
	Mount(const Mount &) = delete;
	~Mount()
	{
		if (mounted_)
			umount(path_.c_str());
		rmdir(path_.c_str());
	}

	const std::filesystem::path &path() const { return path_; }

private:
	std::filesystem::path path_;
	bool mounted_;
};
