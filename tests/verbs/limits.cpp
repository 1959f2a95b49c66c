/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A device has as many objects of each kind as ibv_query_device() promises, and no more. */
#include "cases.hpp"
#include "device.hpp"

#include <cerrno>
#include <fstream>

using namespace rdma;

namespace
{

/*
 * Tells a test build of the module to promise only a few objects, so that a test can make all of
 * them. The RDMA core caches the device's attributes, so ibv_query_device() still reports the old
 * numbers.
 */
class Promise
{
public:
	Promise()
	{
		std::ifstream(file) >> before_;
		if (!before_.empty())
			write("40,40,40,40,40,40"); /* "small" objects of each kind */
	}

	~Promise()
	{
		if (!before_.empty())
			write(before_);
	}

	bool is_small() const { return !before_.empty(); }

	/* The real limit, where ibv_query_device() reports @told. */
	int of(int told) const { return is_small() ? small : told; }

private:
	static constexpr int small = 40;
	static constexpr char file[] = "/sys/module/xiw/parameters/limits";

	static void write(const std::string &text) { std::ofstream(file) << text; }

	std::string before_;
};

/* What the device promises. */
ibv_device_attr promises(const Device &device)
{
	ibv_device_attr attr;

	require(!ibv_query_device(device.context(), &attr), "ibv_query_device");
	return attr;
}

/* Makes objects until that fails, after at most @promised. Returns how many it made. */
int make_all(int promised, auto make)
{
	std::vector<decltype(make())> objects;

	for (int i = 0; i <= promised; i++) {
		objects.push_back(make());
		if (!objects.back()) {
			require(errno == ENOMEM, "making one more fails with ENOMEM");
			return i;
		}
	}
	fail("no more than " + std::to_string(promised) + " can be made", EOVERFLOW);
}

/* Some objects may be in use elsewhere: Device has a PD, and librdmacm keeps some objects, too. */
constexpr int few = 4;

void expect_promise(int promised, auto make)
{
	const int first = make_all(promised, make);

	std::cout << first << " of " << promised << " could be made\n";
	require(first >= promised - few, "as many as promised can be made");
	require(make_all(promised, make) == first, "after their end as many can be made again");
}

void domains(const std::string &address)
{
	Promise promise;
	Device device(address);

	expect_promise(promise.of(promises(device).max_pd),
		       [&] { return Pd(ibv_alloc_pd(device.context())); });
}

/* For objects that are too large to make all of them with the usual limits. */
void expect_small_promise(const std::string &address, int ibv_device_attr::*max, auto make)
{
	Promise promise;

	if (!promise.is_small())
		throw cases::Skip("the module is no test build, and promises too many objects");
	Device device(address);
	expect_promise(promise.of(promises(device).*max), [&] { return make(device); });
}

void completion_queues(const std::string &address)
{
	expect_small_promise(address, &ibv_device_attr::max_cq, [](const Device &device) {
		return Cq(ibv_create_cq(device.context(), 1, nullptr, nullptr, 0));
	});
}

void shared_receive_queues(const std::string &address)
{
	expect_small_promise(address, &ibv_device_attr::max_srq, [](const Device &device) {
		ibv_srq_init_attr attr = { nullptr, { 1, 1, 0 } };

		return Srq(ibv_create_srq(device.pd(), &attr));
	});
}

void queue_pairs(const std::string &address)
{
	Device owner(address);
	Cq cq = owner.create_cq(1);

	expect_small_promise(address, &ibv_device_attr::max_qp, [&cq](const Device &device) {
		return create_qp(device.pd(), cq.get(), { 1, 1, 1, 1, 0 });
	});
}

void regions(const std::string &address)
{
	static char octets[64];

	expect_small_promise(address, &ibv_device_attr::max_mr, [](const Device &device) {
		return Mr(ibv_reg_mr(device.pd(), octets, sizeof(octets), 0));
	});
}

void windows(const std::string &address)
{
	expect_small_promise(address, &ibv_device_attr::max_mw, [](const Device &device) {
		return Mw(ibv_alloc_mw(device.pd(), IBV_MW_TYPE_2));
	});
}

const cases::Case all[] = {
	{ "a device has no more protection domains than it promises", domains },
	{ "a device has no more completion queues than it promises", completion_queues },
	{ "a device has no more shared receive queues than it promises", shared_receive_queues },
	{ "a device has no more queue pairs than it promises", queue_pairs },
	{ "a device has no more regions than it promises", regions },
	{ "a device has no more windows than it promises", windows },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
