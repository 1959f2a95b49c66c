/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A program of cases: "PROGRAM --list" prints their claims, "PROGRAM ADDRESS CLAIM" proves one. */
#pragma once

#include <cstdint>
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
	void (*prove)(const std::string &address); /* throws if the claim does not hold */
};

/* Thrown by a case that cannot run here. */
struct Skip : std::runtime_error {
	using std::runtime_error::runtime_error;
};

/* Writes the reason to a file. netns/lib.sh takes status 4 for a skip only if it finds the file. */
inline void tell_skip(const char *reason)
{
	std::cout << "skipped: " << reason << '\n';
	if (const char *file = std::getenv("XIW_SKIPPED"))
		std::ofstream(file) << reason << '\n';
}

/* Sets a parameter of a test build of the module, "fail" or "pause", and resets it at the end. */
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

/* The number in the environment's @variable, or @otherwise if it is not set. */
inline std::uint64_t number_from(const char *variable, std::uint64_t otherwise)
{
	const char *text = std::getenv(variable);

	return text ? std::stoull(text, nullptr, 0) : otherwise;
}

/* Returns the exit status, by kselftest's rules. */
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
