/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* provider_deferred_doorbell.hpp - a send queue whose doorbell the kernel has deferred */
#pragma once

#include <atomic>

#include "completion_queue.hpp"
#include "deferred_doorbell.hpp"
#include "provider_kernel.hpp"

struct DeferredSendQueue {
	explicit DeferredSendQueue(FakeKernel &kernel)
	{
		owner.context = &kernel.context;
		doorbell.connect(&owner, xiw::Doorbell::Queue::send);
	}

	void defer_to(xiw::CompletionQueue &cq)
	{
		deferred.connect(cq.deferred_doorbells(), doorbell, pending);
		pending = true;
		deferred.defer();
	}

	ibv_qp owner = {};
	xiw::Doorbell doorbell;
	std::atomic<bool> pending = false;
	xiw::DeferredDoorbell deferred;
};
