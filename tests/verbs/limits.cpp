/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A device has as many objects of each kind as ibv_query_device() promises, and no more. */
#include "cases.hpp"
#include "rdma.hpp"

#include <cerrno>
#include <fstream>

using namespace rdma;

namespace
{

using Qp = Owner<ibv_qp, ibv_destroy_qp>;

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

/* The device that serves an address. */
class Device
{
public:
	explicit Device(const std::string &address)
	{
		sockaddr_storage at = parse_address(address, 0);
		rdma_cm_id *id;

		if (rdma_create_id(channel_.get(), &id, nullptr, RDMA_PS_TCP))
			fail("rdma_create_id");
		id_.reset(id);
		if (rdma_bind_addr(id, reinterpret_cast<sockaddr *>(&at)))
			fail("rdma_bind_addr");
		require(!ibv_query_device(id->verbs, &attr_), "ibv_query_device");
		pd_.reset(ibv_alloc_pd(id->verbs));
		cq_.reset(ibv_create_cq(id->verbs, 1, nullptr, nullptr, 0));
		require(pd_ && cq_, "a PD and a CQ");
	}

	ibv_context *context() const { return id_->verbs; }
	ibv_pd *pd() const { return pd_.get(); }
	ibv_cq *cq() const { return cq_.get(); }
	const ibv_device_attr &attr() const { return attr_; }

private:
	EventChannel channel_ = create_event_channel();
	Id id_;
	ibv_device_attr attr_ = {};
	Pd pd_;
	Cq cq_;
};

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

/* Some objects may be in use elsewhere: Device has a PD and a CQ, and librdmacm keeps some, too. */
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

	expect_promise(promise.of(device.attr().max_pd),
		       [&] { return Pd(ibv_alloc_pd(device.context())); });
}

/* For objects that are too large to make all of them with the usual limits. */
void expect_small_promise(const std::string &address, int ibv_device_attr::*max, auto make)
{
	Promise promise;

	if (!promise.is_small())
		throw cases::Skip("the module is no test build, and promises too many objects");
	Device device(address);
	expect_promise(promise.of(device.attr().*max), [&] { return make(device); });
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
	expect_small_promise(address, &ibv_device_attr::max_qp, [](const Device &device) {
		ibv_qp_init_attr attr = {};

		attr.send_cq = attr.recv_cq = device.cq();
		attr.qp_type = IBV_QPT_RC;
		attr.cap = { 1, 1, 1, 1, 0 };
		return Qp(ibv_create_qp(device.pd(), &attr));
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
