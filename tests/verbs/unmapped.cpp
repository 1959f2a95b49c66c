/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A process that has no room to map a new object is told so, and the object is gone again. */
#include "cases.hpp"
#include "device.hpp"
#include "full_space.hpp"

#include <cerrno>
#include <cstdio>

#include <unistd.h>

using namespace rdma;

namespace
{

constexpr int attempts = 20;

/* How many objects of each kind the device has, as "rdma resource" prints them. */
std::string objects_of(const Device &device)
{
	const std::string name = ibv_get_device_name(device.context()->device);
	std::unique_ptr<FILE, Destroy<pclose>> shown(
		popen(("rdma resource show " + name).c_str(), "r"));
	char line[256] = {};

	require(std::fgets(line, sizeof(line), shown.get()) != nullptr, "rdma resource");
	return line;
}

/* Making an object fails without room and leaves nothing behind; with room it succeeds. */
void expect_undone(const Device &device, auto make)
{
	const std::string before = objects_of(device);

	for (int i = 0; i < attempts; i++) {
		bool made;
		int err;
		{
			FullSpace full;

			made = !!make();
			err = errno;
		}
		require(!made && err == ENOMEM, "without room it fails with ENOMEM");
	}
	std::cout << before << objects_of(device);
	require(objects_of(device) == before, "nothing is left of the attempts");
	require(!!make(), "with room it succeeds");
}

void completion_queue(const std::string &address)
{
	Device device(address);

	expect_undone(device, [&] {
		return Cq(ibv_create_cq(device.context(), 1 << 16, nullptr, nullptr, 0));
	});
}

void shared_receive_queue(const std::string &address)
{
	Device device(address);

	expect_undone(device, [&] {
		ibv_srq_init_attr attr = { nullptr, { 1 << 14, 1, 0 } };

		return Srq(ibv_create_srq(device.pd(), &attr));
	});
}

void queue_pair(const std::string &address)
{
	Device device(address);
	Cq cq = device.create_cq(64);

	expect_undone(device, [&] {
		return create_qp(device.pd(), cq.get(), { 1 << 12, 1 << 12, 1, 1, 0 });
	});
}

constexpr std::size_t dm_size = 1 << 20;

void device_memory(const std::string &address)
{
	Device device(address);
	ibv_device_attr_ex attr = {};

	require(!ibv_query_device_ex(device.context(), nullptr, &attr), "ibv_query_device_ex");
	require(attr.max_dm_size / dm_size < attempts, "the attempts need more than there is");
	expect_undone(device, [&] {
		ibv_alloc_dm_attr wanted = { dm_size, 0, 0 };

		return Dm(ibv_alloc_dm(device.context(), &wanted));
	});
}

/* The owner's memory stays when another context fails to map it. */
void imported_memory(const std::string &address)
{
	using Imported = Owner<ibv_dm, ibv_unimport_dm>;
	Device device(address);
	ibv_context *context = device.context();
	ibv_alloc_dm_attr wanted = { dm_size, 0, 0 };
	Dm dm(ibv_alloc_dm(context, &wanted));
	Context other(ibv_import_device(dup(context->cmd_fd)));
	std::uint32_t in = 7, out = 0;

	require(dm && other, "device memory, and another context");
	expect_undone(device, [&] { return Imported(ibv_import_dm(other.get(), dm->handle)); });
	require(!ibv_memcpy_to_dm(dm.get(), 0, &in, sizeof(in)) &&
			!ibv_memcpy_from_dm(&out, dm.get(), 0, sizeof(out)) && in == out,
		"the owner still reads what it writes");
}

const cases::Case all[] = {
	{ "a completion queue that cannot be mapped is gone", completion_queue },
	{ "a shared receive queue that cannot be mapped is gone", shared_receive_queue },
	{ "a queue pair that cannot be mapped is gone", queue_pair },
	{ "device memory that cannot be mapped is free again", device_memory },
	{ "device memory that cannot be mapped is not imported", imported_memory },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
