/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Random programs of verbs do what a model of them says: each completion, and each byte. */
#include "../verify/generate.hpp"
#include "../verify/remote.hpp"
#include "../verify/runner.hpp"
#include "../verify/shrink.hpp"
#include "cases.hpp"
#include "rdma.hpp"

#include <cstdlib>
#include <format>
#include <optional>
#include <random>
#include <thread>

using namespace verify;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace
{

constexpr int shrink_seconds = 25; /* a theme gives a claim a minute */
constexpr std::uint64_t fixed_programs = 40;
constexpr auto grace = 60s;	 /* until a network that is cut again and again carries a program */
constexpr auto fixed_time = 20s; /* an emulated machine does not get through all of them */

/* Generates, executes, and reports programs. */
class Verifier
{
public:
	/* @cut: the network is away now and then, so that a call may fail */
	explicit Verifier(const std::string &address, bool cut = false) : world_(address), cut_(cut)
	{
	}
	/* The other side is on another machine, see World. */
	Verifier(const std::string &address, std::uint16_t port)
		: world_(address, port), with_(std::format(" --with {}", port))
	{
	}
	~Verifier()
	{
		if (cut_)
			std::cout << std::format("{} programs got no connection\n", refused_);
		std::cout << std::format(
			"{} programs, {} requests, {} bytes, {} connections ended, "
			"{} steps skipped\n",
			tally_.programs, tally_.requests, tally_.bytes, tally_.ended,
			tally_.skipped);
	}

	void verify(std::uint64_t seed)
	{
		const Program program = generate(seed, model_);

		try {
			execute(program, 20s, tally_);
		} catch (const std::exception &error) {
			report(seed, program, error.what());
			throw std::runtime_error(std::format("seed {} fails", seed));
		}
	}

	std::uint64_t programs() const { return tally_.programs; }

private:
	void execute(const Program &program, std::chrono::milliseconds patience, Tally &tally)
	{
		std::optional<Runner> runner;

		try {
			runner.emplace(world_, model_, program, patience);
		} catch (const std::exception &) {
			if (!cut_)
				throw;
			refused_++;
			return;
		}
		runner->run(tally);
	}

	/* A program that fails by chance cannot be shrunk: its parts seem to be good. */
	void report(std::uint64_t seed, const Program &program, std::string what)
	{
		auto fails = [&](const Program &candidate) {
			Tally ignored;

			try {
				execute(candidate, 2s, ignored);
				return false;
			} catch (const std::exception &error) {
				what = error.what();
				return true;
			}
		};

		std::cout << std::format("seed {} fails after {} programs: {}\n", seed,
					 tally_.programs, what)
			  << std::format("again: verbs/verify {}{} --seed {}; or the theme with "
					 "VERIFY_SEED={} ONLY=verify:\n",
					 world_.address(), with_, seed, seed)
			  << std::flush;

		const Program small = shrink(program, fails, shrink_seconds);

		std::cout << std::format("shrunk from {} steps to {}:\n{}", program.steps.size(),
					 small.steps.size(), text(small));
		for (int tries = 0; tries < 3 && !fails(small); tries++)
			;
		std::cout << "of which the last failure was: " << what << '\n' << std::flush;
	}

	World world_;
	std::string with_; /* the option, if the other side is on another machine */
	Model model_;
	Tally tally_;
	bool cut_ = false;
	std::uint64_t refused_ = 0;
};

/* VERIFY_SEED replaces the programs by one. */
bool replays(Verifier &verifier)
{
	if (!std::getenv("VERIFY_SEED"))
		return false;
	verifier.verify(cases::number_from("VERIFY_SEED", 0));
	return true;
}

void fixed(const std::string &address)
{
	Verifier verifier(address);
	const auto end = Clock::now() + fixed_time;

	for (std::uint64_t seed = 0; seed < fixed_programs && !replays(verifier); seed++) {
		verifier.verify(seed);
		if (Clock::now() > end)
			break;
	}
}

/* Fresh programs of one kind for VERIFY_SECONDS. */
void fresh(const std::string &address, Kind kind)
{
	Verifier verifier(address);
	const auto end =
		Clock::now() + std::chrono::seconds(cases::number_from("VERIFY_SECONDS", 2));
	std::uint64_t seed =
		cases::number_from("XIW_SEED", std::random_device()()) / kinds * kinds +
		static_cast<std::uint64_t>(kind);

	if (replays(verifier))
		return;
	std::cout << std::format("seeds {}, {}, and so on\n", seed, seed + kinds) << std::flush;
	do {
		verifier.verify(seed);
		seed += kinds;
	} while (Clock::now() < end);
}

void of_one(const std::string &address)
{
	fresh(address, Kind::one);
}

void of_many(const std::string &address)
{
	fresh(address, Kind::many);
}

void of_threads(const std::string &address)
{
	fresh(address, Kind::threads);
}

void wrong_ones(const std::string &address)
{
	fresh(address, Kind::wrong);
}

/*
 * The first bytes of a Write that ends behind its region may be placed. So they must not go where
 * another connection places a Send: nobody knows which comes last.
 */
void wrong_ones_stay_apart(const std::string &)
{
	const std::uint32_t end = regions[wide].size;
	Model model;
	Step receive = {
		.act = Act::receive, .side = B, .qp = 1, .pieces = { { wide, end - 50, 20 } }
	};
	Step send = { .act = Act::send, .qp = 1, .pieces = { { odd, 0, 20 } } };
	Step beyond = { .act = Act::write,
			.fault = Fault::beyond,
			.pieces = { { odd, 100, 100 } },
			.region = wide,
			.offset = end - 60 };
	Step outside = { .act = Act::write,
			 .fault = Fault::outside,
			 .side = B,
			 .pieces = { { wide, end - 60, 100 } },
			 .region = odd,
			 .offset = 100 };

	for (const Step &wrong : { beyond, outside }) {
		model.start({ .qps = 2 });
		model.begin(&wrong);
		rdma::require(!model.objection(wrong), "the request is wrong as it should be");
		for (const Step &step : { receive, send }) {
			rdma::require(!model.objection(step), "the Send is possible");
			model.take(step);
		}
		rdma::require(model.objection(wrong), "the request may not meet the Send");
	}
}

const cases::Case all[] = {
	{ "wrong requests that the model allows have one outcome", wrong_ones_stay_apart },
	{ "programs that were made up before do what the model says", fixed },
	{ "random programs on one queue pair do what the model says", of_one },
	{ "random programs on several queue pairs do what the model says", of_many },
	{ "random programs of several threads do what the model says", of_threads },
	{ "random programs with wrong requests end as the model says", wrong_ones },
};

/* The network may be away just when the verifier begins. */
void begin(std::optional<Verifier> &verifier, const std::string &address, bool cut)
{
	const auto over = Clock::now() + grace;

	while (!verifier)
		try {
			verifier.emplace(address, cut);
		} catch (const std::exception &) {
			if (!cut || Clock::now() > over)
				throw;
			std::this_thread::sleep_for(100ms);
		}
}

/*
 * verify ADDRESS [--seed N] [--programs N] [--seconds N] [--cut 1] [--with PORT]: fresh programs of all
 * kinds, of which some must get a connection. With a port, the other side is on the machine with the
 * address, where "verify ADDRESS --serve PORT" runs.
 */
int at_will(std::span<char *> arguments)
{
	std::uint64_t seed = std::random_device()(), programs = ~std::uint64_t{ 0 }, seconds = 60;
	std::uint16_t with = 0;
	bool cut = false;

	for (std::size_t i = 2; i + 1 < arguments.size(); i += 2) {
		const std::string_view option = arguments[i];
		const std::uint64_t value = std::strtoull(arguments[i + 1], nullptr, 0);

		if (option == "--seed")
			seed = value, programs = 1;
		else if (option == "--programs")
			programs = value;
		else if (option == "--seconds")
			seconds = value;
		else if (option == "--cut")
			cut = value;
		else if (option == "--with")
			with = static_cast<std::uint16_t>(value);
		else if (option == "--serve")
			return serve(arguments[1], static_cast<std::uint16_t>(value)), 0;
	}

	std::optional<Verifier> verifier;

	if (with)
		verifier.emplace(arguments[1], with);
	else
		begin(verifier, arguments[1], cut);

	const auto end = Clock::now() + std::chrono::seconds(seconds);

	std::cout << std::format("seeds from {} on\n", seed) << std::flush;
	while (verifier->programs() < programs &&
	       (Clock::now() < end || (!verifier->programs() && Clock::now() < end + grace)))
		verifier->verify(seed++);
	rdma::require(verifier->programs() > 0, "some programs get a connection");
	return 0;
}

} /* namespace */

int main(int argc, char **argv)
{
	std::span arguments(argv, static_cast<std::size_t>(argc));

	if (argc <= 3 || !std::string_view(arguments[2]).starts_with("--"))
		return cases::run(all, argc, argv);
	try {
		return at_will(arguments);
	} catch (const std::exception &error) {
		std::cout << error.what() << '\n';
		return 1;
	}
}
