/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A control group for this process. */
#pragma once

#include "mount.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

/* Puts this process into a control group of its own, until the end. */
class ControlGroup
{
public:
	ControlGroup()
	{
		std::filesystem::create_directory(own_);
		enter();
	}
	ControlGroup(const ControlGroup &) = delete;

	~ControlGroup()
	{
		leave();
		rmdir(own_.c_str());
	}

	void enter() { write(own_ / "cgroup.procs", "0"); }
	void leave() { write(root() / "cgroup.procs", "0"); }

	const std::filesystem::path &root() const { return root_.path(); }
	const std::filesystem::path &path() const { return own_; }

	static void write(const std::filesystem::path &file, const char *text)
	{
		std::ofstream(file) << text;
	}

private:
	Mount root_{ "cgroup2" };
	std::filesystem::path own_ = root_.path() / std::to_string(getpid());
};
