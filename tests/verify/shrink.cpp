/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Makes a program that fails smaller, as long as it fails. */
#include "shrink.hpp"

#include <algorithm>
#include <chrono>

namespace verify
{

namespace
{

class Shrinker
{
public:
	Shrinker(Program program, const std::function<bool(const Program &)> &fails, int seconds)
		: best_(std::move(program)), fails_(fails),
		  deadline_(Clock::now() + std::chrono::seconds(seconds))
	{
	}

	Program run()
	{
		do {
			progress_ = false;
			fewer_steps();
			simpler_setup();
			for (std::size_t i = 0; i < best_.steps.size(); i++)
				simpler_step(i);
		} while (progress_ && !late());
		return best_;
	}

private:
	using Clock = std::chrono::steady_clock;

	bool late() const { return Clock::now() > deadline_; }

	/* A failure may depend on chance, so a candidate has two. */
	bool keep(const Program &candidate)
	{
		if (late() || !(fails_(candidate) || fails_(candidate)))
			return false;
		best_ = candidate;
		progress_ = true;
		return true;
	}

	/* Leaves out runs of steps: first half of all, at last single ones (ddmin). */
	void fewer_steps()
	{
		for (std::size_t run = best_.steps.size(); run; run /= 2)
			for (std::size_t at = 0; at < best_.steps.size();) {
				Program candidate = best_;
				auto first = candidate.steps.begin() + static_cast<long>(at);

				candidate.steps.erase(
					first,
					first + std::min<long>(static_cast<long>(run),
							       candidate.steps.end() - first));
				if (!keep(candidate))
					at += run;
			}
	}

	void simpler_setup()
	{
		auto attempt = [&](auto change) {
			Program candidate = best_;

			change(candidate.setup);
			if (text(candidate.setup) != text(best_.setup))
				keep(candidate);
		};

		attempt([](Setup &setup) { setup.qps = 1; });
		attempt([](Setup &setup) { setup.threads = 1; });
		attempt([](Setup &setup) { setup.extended = false; });
		for (Side side : { A, B }) {
			attempt([=](Setup &setup) { setup.sides[side].srq = false; });
			attempt([=](Setup &setup) { setup.sides[side].one_cq = false; });
			attempt([=](Setup &setup) { setup.sides[side].extended_cq = false; });
		}
	}

	/* Tries one change of a step. Returns whether the program still fails. */
	bool attempt(std::size_t at, auto change)
	{
		Program candidate = best_;

		change(candidate.steps[at]);
		return text(candidate.steps[at]) != text(best_.steps[at]) && keep(candidate);
	}

	void simpler_step(std::size_t at)
	{
		attempt(at, [](Step &step) { step.qp = 0; });
		attempt(at, [](Step &step) { step.thread = 0; });
		attempt(at, [](Step &step) { step.fenced = step.solicited = false; });
		attempt(at, [](Step &step) { step.chained = false; });
		attempt(at, [](Step &step) { step.extended = false; });
		attempt(at, [](Step &step) { step.inlined = false; });
		attempt(at, [](Step &step) { step.signaled = true; });
		attempt(at, [](Step &step) { /* all in one piece */
					     if (step.pieces.size() > 1)
						     step.pieces = { { 0, step.pieces[0].offset,
								       step.length() } };
		});
		for (std::uint32_t less = best_.steps[at].length() / 2; less; less /= 2)
			while (attempt(at, [less](Step &step) {
				for (Piece &piece : step.pieces)
					if (piece.length >= less && less) {
						piece.length -= less;
						break;
					}
			}))
				;
	}

	Program best_;
	const std::function<bool(const Program &)> &fails_;
	const Clock::time_point deadline_;
	bool progress_ = false;
};

} /* namespace */

Program shrink(Program program, const std::function<bool(const Program &)> &fails, int seconds)
{
	return Shrinker(std::move(program), fails, seconds).run();
}

} /* namespace verify */
