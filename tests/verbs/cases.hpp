/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A program of cases: "PROGRAM --list" prints their claims, "PROGRAM ADDRESS CLAIM" proves one. */
#pragma once

#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace cases
{

struct Case {
	std::string_view claim;
	void (*prove)(const std::string &address); /* throws if it does not hold */
};

/* Thrown by a case that cannot be proved here. */
struct Skip : std::runtime_error {
	using std::runtime_error::runtime_error;
};

/* What tells a skip from a failure that happens to have its status: netns/lib.sh looks for it. */
inline void tell_skip(const char *reason)
{
	std::cout << "skipped: " << reason << '\n';
	if (const char *file = std::getenv("XIW_SKIPPED"))
		std::ofstream(file) << reason << '\n';
}

/* What a test build of the module is told by a parameter, until the end: "fail" or "pause". */
class Told
{
public:
	Told(const std::string &parameter, const std::string &text)
		: file_("/sys/module/xiw/parameters/" + parameter)
	{
		if (!file_)
			throw Skip("the module is no test build");
		file_ << text << std::flush;
	}
	Told(const Told &) = delete;
	~Told() { file_ << "none 0" << std::flush; }

private:
	std::ofstream file_;
};

/* Status of main, in kselftest's numbers. */
inline int run(std::span<const Case> all, int argc, char **argv)
{
	std::span arguments(argv, static_cast<std::size_t>(argc));

	if (argc == 2 && std::string_view(arguments[1]) == "--list") {
		for (const Case &one : all)
			std::cout << one.claim << '\n';
		return 0;
	}
	for (const Case &one : all) {
		if (argc != 3 || one.claim != arguments[2])
			continue;
		try {
			one.prove(arguments[1]);
			return 0;
		} catch (const Skip &reason) {
			tell_skip(reason.what());
			return 4;
		} catch (const std::exception &error) {
			std::cout << error.what() << '\n';
			return 1;
		}
	}
	std::cerr << "usage: " << arguments[0] << " --list | ADDRESS CLAIM\n";
	return 2;
}

} /* namespace cases */
