/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* The kernel's fault injection: allocations and copies to or from the process that fail. */
#include "injection.hpp"
#include "cases.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>

namespace injection
{

using rdma::require;

static const std::vector<std::string> kinds = { "failslab", "fail_page_alloc", "fail_usercopy" };

/* Far more than a claim injects. The kernel counts this down. */
constexpr std::uint64_t many = 1'000'000'000;

/* Where the functions of the module begin, by address. */
static const std::map<std::uintptr_t, std::string> &functions()
{
	static const auto all = [] {
		std::map<std::uintptr_t, std::string> found;
		std::ifstream symbols("/proc/kallsyms");

		for (std::string line; std::getline(symbols, line);) {
			if (!line.ends_with("[xiw]"))
				continue;

			std::istringstream words(line);
			std::uintptr_t address;
			std::string name;
			char type;

			words >> std::hex >> address >> type >> name;
			if (type == 't' || type == 'T')
				found.emplace(address, name);
		}
		require(!found.empty(), "the kernel lists the functions of the module");
		return found;
	}();

	return all;
}

Code code_of_module()
{
	return { functions().begin()->first, functions().rbegin()->first };
}

Code code_of_function(const std::string &name)
{
	for (const auto &[address, function] : functions())
		if (function == name)
			return { address, end_of_function(address) };
	rdma::fail("the module has no function " + name);
}

std::string function_at(std::uintptr_t address)
{
	auto after = functions().upper_bound(address);

	require(after != functions().begin(), "the address is in the module");
	return std::prev(after)->second;
}

std::uintptr_t end_of_function(std::uintptr_t address)
{
	auto after = functions().upper_bound(address);

	require(after != functions().end(), "another function follows");
	return after->first;
}

static std::string read(const std::filesystem::path &file)
{
	std::string value;

	std::getline(std::ifstream(file), value);
	return value;
}

static void write(const std::filesystem::path &file, std::string_view value)
{
	std::ofstream(file) << value;
}

Settings::Settings(const std::vector<std::string> &kinds)
{
	for (const std::string &kind : kinds) {
		const auto folder = debugfs_.path() / kind;

		if (!std::filesystem::exists(folder))
			throw cases::Skip("this kernel injects no faults");
		for (const auto &file : std::filesystem::directory_iterator(folder))
			before_.emplace(file, read(file));
	}
}

/* First the probability, which is none, so that nothing fails meanwhile. */
Settings::~Settings()
{
	for (bool first : { true, false })
		for (const auto &[file, value] : before_)
			if ((file.filename() == "probability") == first)
				write(file, value);
}

bool Settings::has(const std::string &kind, const std::string &file) const
{
	return before_.contains(debugfs_.path() / kind / file);
}

void Settings::set(const std::string &kind, const std::string &file, std::string_view value)
{
	write(debugfs_.path() / kind / file, value);
}

std::string Settings::get(const std::string &kind, const std::string &file) const
{
	return read(debugfs_.path() / kind / file);
}

Faults::Faults() : settings_(kinds)
{
	for (const std::string &kind : kinds)
		if (!settings_.has(kind, "require-start"))
			throw cases::Skip("this kernel injects no faults by call chain");
	pause();
	set_verbose(false);
	for (const std::string &kind : kinds) {
		set(kind, "task-filter", 0);
		set(kind, "interval", 1);
		set(kind, "space", 0);
		set(kind, "stacktrace-depth", 32);
		set(kind, "reject-start", 0);
		set(kind, "reject-end", 0);
	}
	for (const char *kind : { "failslab", "fail_page_alloc" })
		set(kind, "ignore-gfp-wait", 0);
	set("fail_page_alloc", "ignore-gfp-highmem", 0);
	set("fail_page_alloc", "min-order", 0);
	allow(many);
	anywhere();
}

void Faults::only_in(Code code)
{
	for (const std::string &kind : kinds) {
		set(kind, "require-start", code.begin);
		set(kind, "require-end", code.end);
	}
}

void Faults::anywhere()
{
	only_in({ 0, std::numeric_limits<std::uintptr_t>::max() });
}

/* Copies to and from the process are left out, because no memory has to be short for them. */
void Faults::begin(unsigned int percent)
{
	allow(many);
	for (const char *kind : { "failslab", "fail_page_alloc" })
		set(kind, "probability", percent);
}

void Faults::fail_once()
{
	begin(100);
	allow(1);
}

void Faults::allow(std::uint64_t times)
{
	for (const std::string &kind : kinds) {
		if (allowed_)
			injected_ += allowed_ - get(kind, "times");
		set(kind, "times", times);
	}
	allowed_ = times;
}

std::uint64_t Faults::injected()
{
	allow(allowed_);
	return injected_;
}

void Faults::pause()
{
	for (const std::string &kind : kinds)
		set(kind, "probability", 0);
}

void Faults::set_verbose(bool verbose)
{
	for (const std::string &kind : kinds) {
		set(kind, "verbose", verbose ? 2 : 0);
		set(kind, "verbose_ratelimit_interval_ms", 0);
	}
}

void Faults::set(const std::string &kind, const std::string &file, std::uint64_t value)
{
	settings_.set(kind, file, std::to_string(value));
}

std::uint64_t Faults::get(const std::string &kind, const std::string &file) const
{
	return std::stoull(settings_.get(kind, file));
}

Nth::Nth() : file_(open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC))
{
	if (file_ < 0)
		throw cases::Skip("this kernel injects no faults by number");
}

Nth::~Nth()
{
	disarm();
	close(file_);
}

void Nth::arm(unsigned int nth)
{
	const std::string text = std::to_string(nth);

	require(pwrite(file_, text.data(), text.size(), 0) > 0, "a fault is armed");
}

/* The access itself copies data, which may be what fails. In that case the verb was done before. */
bool Nth::disarm()
{
	const int before = errno;
	char left[16] = {};
	const bool known = pread(file_, left, sizeof(left) - 1, 0) > 0;

	while (pwrite(file_, "0", 1, 0) != 1)
		continue;
	errno = before;
	return known && std::stoul(left) == 0;
}

void Call::expect_success(int error)
{
	if (error)
		rdma::fail("the verb succeeds when it is called again", error);
}

} /* namespace injection */
