/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* tcp_memory.hpp - lets TCP run out of memory */
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>

namespace rdma
{

/* How many pages all TCP sockets of the kernel may have. Only the first network namespace has the
 * setting.
 */
class TcpMemory
{
public:
	explicit TcpMemory(const std::string &pages) { exchange(pages, before_); }
	TcpMemory(const TcpMemory &) = delete;
	~TcpMemory()
	{
		std::string ignored;

		exchange(before_, ignored);
	}

private:
	static void exchange(const std::string &pages, std::string &before)
	{
		std::jthread([&] {
			const int first = open("/proc/1/ns/net", O_RDONLY | O_CLOEXEC);
			constexpr char file[] = "/proc/sys/net/ipv4/tcp_mem";

			setns(first, CLONE_NEWNET);
			close(first);
			std::getline(std::ifstream(file), before);
			std::ofstream(file) << pages;
		});
	}

	std::string before_;
};

} /* namespace rdma */
