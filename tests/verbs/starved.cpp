/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A device, and calls of its verbs in which each thing that can fail fails once. */
#include "starved.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <format>
#include <fstream>
#include <limits>

namespace injection
{

using namespace rdma;

static constexpr char limits[] = "/sys/module/xiw/parameters/limits";

/* More than any verb has. */
static constexpr unsigned int most = 3000;

Few::Few()
{
	std::ifstream(limits) >> before_;
	require(!before_.empty(), "the module is a test build");
	std::ofstream(limits) << "8,8,8,8,8,8";
}

Few::~Few()
{
	std::ofstream(limits) << before_;
}

std::string objects(ibv_context *context)
{
	const std::string device = ibv_get_device_name(context->device);
	std::unique_ptr<FILE, Destroy<pclose>> list(
		popen(("rdma resource show " + device).c_str(), "r"));
	char line[256] = {};

	require(list && fgets(line, sizeof(line), list.get()), "the core lists the objects");
	return line;
}

void Starved::verb(const std::string &name, const Attempt &attempt, const Allowed &allowed)
{
	try {
		starve(name, attempt, allowed);
	} catch (const std::exception &error) {
		std::printf("%s: %s\n", name.c_str(), error.what());
		broken_++;
	}
	faults_.anywhere();
}

void Starved::conclude() const
{
	require(!broken_, "each verb says that something has failed, and leaves nothing");
}

void Starved::starve(const std::string &name, const Attempt &attempt, const Allowed &allowed)
{
	constexpr Code all_code = { 0, std::numeric_limits<std::uintptr_t>::max() };

	attempt_once(attempt); /* so that what only the first use needs does not count */

	const std::string before = objects(context());
	const Count ours = count(attempt, allowed, code_of_module());
	const Count all = count(attempt, allowed, all_code);

	std::printf("%-26s %4u injected, of which %4u failed the call; in the module %4u and %4u\n",
		    name.c_str(), all.injected, all.failed, ours.injected, ours.failed);
	require(ours.wrong.empty() && all.wrong.empty(),
		"failures are reported by wrong errors:" + ours.wrong + all.wrong);
	require(all.injected > 0, "something has failed");
	require(all.failed > 0 || allowed.success_only, "a call has failed");
	await("no object is left", [&] { return objects(context()) == before; });
}

void Starved::attempt_once(const Attempt &attempt)
{
	Nth nth;
	Call call(nth, most);

	attempt(call);
	require(!call.error() && !call.injected(), "the verb succeeds without a failure");
}

static bool is_right(int error, const std::vector<int> &also)
{
	return !error || error == ENOMEM || error == EFAULT ||
	       std::ranges::find(also, error) != also.end();
}

Starved::Count Starved::count(const Attempt &attempt, const Allowed &allowed, Code code)
{
	Count count;

	faults_.only_in(code);
	for (unsigned int number = 1; number < most; number++) {
		Call call(nth_, number);

		try {
			attempt(call);
		} catch (const std::exception &error) {
			fail(std::format("failure {}, error {}: {}", number, call.error(),
					 error.what()));
		}
		if (!call.injected()) {
			require(!call.error(), "the verb succeeds without a failure");
			return count;
		}
		count.injected++;
		count.failed += call.error() != 0;
		if (!is_right(call.error(), allowed.errors))
			count.wrong +=
				std::format(" {} by {}", number, std::strerror(call.error()));
	}
	fail("there is no end of what can fail");
}

} /* namespace injection */
