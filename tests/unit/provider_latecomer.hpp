/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* provider_latecomer.hpp - a send queue whose doorbell the kernel wants to hear later */
#pragma once

#include "completion_queue.hpp"
#include "provider_kernel.hpp"

struct Late {
	explicit Late(FakeKernel &kernel)
	{
		ctl.flags = XIW_DOORBELL_LATER;
		owner.context = &kernel.context;
		doorbell.connect(&owner, xiw::Doorbell::Queue::send);
	}

	/* At @cq. */
	void list(xiw::CompletionQueue &cq)
	{
		one.join(cq.latecomers(), doorbell, ring);
		one.defer();
	}

	ibv_qp owner = {};
	xiw::Doorbell doorbell;
	alignas(64) xiw_queue_ctl ctl = {};
	xiw::WorkRing ring{ &ctl, nullptr, 1, 1, 1 };
	xiw::Latecomer one;
};
