/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Owns queue pairs for programs that connect queue pairs of other processes by number.
 *
 *	queue_pairs DEVICE FIRST COUNT
 *
 * Creates the queue pairs FIRST to FIRST + COUNT - 1, prints "ready", and waits to be killed. The
 * device numbers queue pairs upwards, so it must not have reached FIRST before.
 */
#include "rdma.hpp"

#include <unistd.h>

#include <iostream>
#include <string>
#include <string_view>

using namespace rdma;

namespace
{

Context open_device(std::string_view name)
{
	Owner<ibv_device *, ibv_free_device_list> list(ibv_get_device_list(nullptr));

	require(list != nullptr, "the devices can be listed");
	for (ibv_device **device = list.get(); *device; device++)
		if (ibv_get_device_name(*device) == name)
			return Context(ibv_open_device(*device));
	return nullptr;
}

void own(std::string_view device, std::uint32_t first, std::uint32_t count)
{
	Context context = open_device(device);

	require(context != nullptr, "the device exists and can be opened");

	Pd pd(ibv_alloc_pd(context.get()));
	Cq cq(ibv_create_cq(context.get(), 1, nullptr, nullptr, 0));
	ibv_qp_init_attr attributes = {};
	std::vector<Qp> all;

	attributes.send_cq = cq.get();
	attributes.recv_cq = cq.get();
	attributes.qp_type = IBV_QPT_RC;
	attributes.cap.max_send_wr = 1;
	attributes.cap.max_recv_wr = 1;
	attributes.cap.max_send_sge = 1;
	attributes.cap.max_recv_sge = 1;

	while (all.size() < count) {
		Qp qp(ibv_create_qp(pd.get(), &attributes));

		require(qp != nullptr, "a queue pair can be made");
		if (qp->qp_num < first)
			continue;
		require(qp->qp_num == first + all.size(), "the numbers are free");
		all.push_back(std::move(qp));
	}
	std::cout << "ready" << std::endl;
	pause();
}

} /* namespace */

int main(int argc, char **argv)
{
	if (argc != 4) {
		std::cerr << "usage: queue_pairs DEVICE FIRST COUNT\n";
		return 2;
	}
	try {
		own(argv[1], std::stoul(argv[2]), std::stoul(argv[3]));
	} catch (const std::exception &error) {
		std::cerr << error.what() << '\n';
		return 1;
	}
	return 0;
}
