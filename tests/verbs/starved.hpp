/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A device, and calls of its verbs in which each thing that can fail fails once. */
#pragma once

#include "device.hpp"
#include "injection.hpp"

#include <functional>
#include <string>
#include <vector>

namespace injection
{

/* While this lives, a device may have only a few objects of each kind. If a failed call is counted
 * as an object, the limit is soon reached, and the verb cannot succeed any more.
 */
class Few
{
public:
	Few();
	Few(const Few &) = delete;
	~Few();

private:
	std::string before_;
};

/* The objects of a device, as the core counts them. */
std::string objects(ibv_context *context);

/* What may become of a verb in which something fails, besides ENOMEM and EFAULT. */
struct Allowed {
	std::vector<int> errors = {};
	bool success_only = false; /* it may go on in spite of each single failure */
};

using Attempt = std::function<void(Call &)>;

class Starved
{
public:
	explicit Starved(const std::string &address) : address_(address), device_(address) {}

	const std::string &address() const { return address_; }
	const rdma::Device &device() const { return device_; }
	ibv_context *context() const { return device_.context(); }
	ibv_pd *pd() const { return device_.pd(); }

	/* The attempt gives the verb to its Call once. What it makes before cannot fail. It is
	 * repeated until nothing is left that could fail. Prints how much has failed.
	 */
	void verb(const std::string &name, const Attempt &attempt, const Allowed &allowed = {});

	/* Throws if the claim does not hold for a verb. */
	void conclude() const;

private:
	struct Count {
		unsigned int injected = 0;
		unsigned int failed = 0;
		std::string wrong; /* errors that the verb must not return */
	};

	static void attempt_once(const Attempt &attempt);
	void starve(const std::string &name, const Attempt &attempt, const Allowed &allowed);
	Count count(const Attempt &attempt, const Allowed &allowed, Code code);

	std::string address_;
	Few few_;
	Faults faults_;
	Nth nth_;
	rdma::Device device_;
	unsigned int broken_ = 0; /* verbs */
};

} /* namespace injection */
