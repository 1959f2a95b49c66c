// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* replay.cpp - runs a target on the inputs of text files, without the fuzzer: TARGET FILE... */

#include <fstream>
#include <iostream>

#include "input.hpp"

namespace
{

/* Each line is "NAME: OCTETS" in hexadecimal, empty, or a comment. Returns their number. */
int replay(const char *path)
{
	std::ifstream file(path);
	std::string line;
	int inputs = 0;

	while (std::getline(file, line)) {
		size_t colon = line.find(':');

		if (line.starts_with('#') || colon == std::string::npos)
			continue;

		/* The last line that is printed names the input that failed. */
		std::cout << path << ": " << line.substr(0, colon) << std::endl;

		ExactCopy input(octets(std::string_view(line).substr(colon)));

		LLVMFuzzerTestOneInput(input.as<uint8_t>(),
				       octets(std::string_view(line).substr(colon)).size());
		inputs++;
	}
	return inputs;
}

} /* namespace */

int main(int argc, char **argv)
{
	int inputs = 0;

	for (int i = 1; i < argc; i++)
		inputs += replay(argv[i]);
	std::cout << inputs << " inputs\n";
	return inputs ? EXIT_SUCCESS : EXIT_FAILURE;
}
