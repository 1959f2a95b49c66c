/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* provider_latecomer.hpp - a send queue whose doorbell the kernel wants to hear later */
#pragma once

#include "completion_queue.hpp"
#include "provider_kernel.hpp"

struct Late {
	explicit Late(FakeKernel &kernel)
	{
		owner.context = &kernel.context;
		doorbell.connect(&owner, xiw::Doorbell::Queue::send);
	}

	/* At @cq. */
	void list(xiw::CompletionQueue &cq)
	{
		one.join(cq.latecomers(), doorbell, late);
		late = true;
		one.defer();
	}

	ibv_qp owner = {};
	xiw::Doorbell doorbell;
	std::atomic<bool> late = false;
	xiw::Latecomer one;
};
