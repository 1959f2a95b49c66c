/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* The kernel's fault injection: allocations and copies to or from the process that fail. */
#pragma once

#include "mount.hpp"

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace injection
{

/* Addresses of code: from begin up to end. */
struct Code {
	std::uintptr_t begin = 0;
	std::uintptr_t end = 0;
};

Code code_of_module();
Code code_of_function(const std::string &name);

/* The function of the module that contains this address. */
std::string function_at(std::uintptr_t address);
std::uintptr_t end_of_function(std::uintptr_t address);

/* The kernel's settings of these ways to fail are at the end what they were at the beginning. */
class Settings
{
public:
	/* Throws Skip if the kernel does not have one of them. */
	explicit Settings(const std::vector<std::string> &kinds);
	Settings(const Settings &) = delete;
	~Settings();

	bool has(const std::string &kind, const std::string &file) const;
	void set(const std::string &kind, const std::string &file, std::string_view value);
	std::string get(const std::string &kind, const std::string &file) const;

private:
	Mount debugfs_{ "debugfs" };
	std::map<std::filesystem::path, std::string> before_;
};

/* The ways to fail: failslab, fail_page_alloc and fail_usercopy. Switched off at the end. */
class Faults
{
public:
	/* Skips the claim if the kernel cannot inject faults. */
	Faults();
	Faults(const Faults &) = delete;

	/* Only what these functions call may fail, directly or not. Without it all code may fail.
	 */
	void only_in(Code code);
	void anywhere();

	/* Allocations fail at random, whichever thread makes them, until pause(). */
	void begin(unsigned int percent);
	/* The next allocation fails. */
	void fail_once();
	void pause();

	/* How often something has failed so far, without what Nth has made fail. */
	std::uint64_t injected();

	/* Puts the call chain of each failure into the kernel's log. The gates object to that. */
	void set_verbose(bool verbose);

private:
	void allow(std::uint64_t times);
	void set(const std::string &kind, const std::string &file, std::uint64_t value);
	std::uint64_t get(const std::string &kind, const std::string &file) const;

	Settings settings_;
	std::uint64_t allowed_ = 0; /* for each kind; the kernel counts it down */
	std::uint64_t injected_ = 0;
};

/* Makes the nth thing fail that could fail, in this thread only. */
class Nth
{
public:
	Nth();
	Nth(const Nth &) = delete;
	~Nth();

	void arm(unsigned int nth);
	/* Returns whether the nth thing has been reached, and has failed. */
	bool disarm();

private:
	int file_;
};

/* One call of a verb, in which the nth thing fails. Then it is called again without a failure. */
class Call
{
public:
	Call(Nth &nth, unsigned int number) : nth_(nth), number_(number) {}

	/* The verb returns 0 or an errno. */
	void operator()(auto verb)
	{
		once(verb);
		if (error_)
			expect_success(verb());
	}

	/* For a verb that destroys something. The core may have done so before it failed to copy
	 * its answer; then there is nothing left to destroy.
	 */
	void destroy(auto verb)
	{
		once(verb);
		if (!error_)
			return;
		if (int error = verb(); error != ENOENT)
			expect_success(error);
	}

	/* For a verb that cannot be called again. Returns whether it has succeeded. */
	bool once(auto verb)
	{
		nth_.arm(number_);
		error_ = verb();
		injected_ = nth_.disarm();
		return !error_;
	}

	/* For a verb that returns an object, or null and sets errno. */
	auto make(auto verb)
	{
		decltype(verb()) object;

		(*this)([&] {
			errno = 0;
			object = verb();
			return object ? 0 : errno;
		});
		return object;
	}

	bool injected() const { return injected_; }
	int error() const { return error_; }

private:
	static void expect_success(int error);

	Nth &nth_;
	unsigned int number_;
	bool injected_ = false;
	int error_ = 0;
};

} /* namespace injection */
