// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* cm.c - connects, accepts and rejects for the iWARP connection manager */

#include <linux/nsproxy.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <net/sock.h>
#include <rdma/rdma_cm.h>

#include "carrier/sock_lock.h"
#include "conn/cm.h"
#include "conn/ep.h"
#include "conn/sock.h"
#include "device.h"
#include "pause.h"
#include "stream/qp.h"
#include "stream/tx.h"
#include "stream/worker.h"

/*
 * The only consumer of the iw_cm is the rdma_cm, and the context of its ids is a struct rdma_cm_id.
 * Do not rely on that: its device and its address must match those of @cm_id, and the reads do not
 * fault if the context is something else. Return: whether @net is set.
 */
static bool cm_ask_rdma_cm(const struct iw_cm_id *cm_id, struct net **net)
{
	const struct rdma_cm_id *id = cm_id->context;
	struct sockaddr_storage addr;
	struct ib_device *device;

	return !get_kernel_nofault(device, &id->device) && device == cm_id->device &&
	       !copy_from_kernel_nofault(&addr, &id->route.addr.src_addr, sizeof(addr)) &&
	       !memcmp(&addr, &cm_id->local_addr,
		       rdma_addr_size((struct sockaddr *)&cm_id->local_addr)) &&
	       !get_kernel_nofault(*net, &id->route.addr.dev_addr.net);
}

bool xiw_cm_concerns(const struct iw_cm_id *cm_id, const struct xiw_device *dev)
{
	struct net *net;

	if (!cm_ask_rdma_cm(cm_id, &net))
		net = current->nsproxy->net_ns;
	return net_eq(net, read_pnet(&dev->net));
}

/* Return: the queue pair of that number, with a reference, or NULL. */
static struct xiw_qp *cm_find_qp(struct iw_cm_id *cm_id, u32 qpn)
{
	struct ib_qp *ibqp = xiw_qp_find(cm_id->device, qpn);

	return ibqp ? to_xiw_qp(ibqp) : NULL;
}

static int cm_copy_pdata(struct xiw_ep *ep, struct xiw_mpa *mpa, const void *pdata, u16 len)
{
	if (len > MPA_MAX_PRIVATE_DATA - sizeof(struct xiw_mpa_enhanced))
		return -EINVAL;
	if (len) {
		ep->pd = kmemdup(pdata, len, GFP_KERNEL_ACCOUNT);
		if (!ep->pd)
			return -ENOMEM;
	}
	mpa->pd = ep->pd;
	mpa->pd_len = len;
	return 0;
}

static int cm_dial(struct xiw_ep *ep, struct iw_cm_id *cm_id, struct iw_cm_conn_param *param,
		   struct xiw_qp *qp)
{
	int ret;

	ep->ours = (struct xiw_mpa){
		.revision = MPA_REV_2,
		.crc = xiw_setting(&ep->dev->settings, XIW_SET_CRC),
		.enhanced = true,
		.large_fpdus = xiw_setting(&ep->dev->settings, XIW_SET_LARGE_FPDUS),
		.p2p = true,
		.rtr = XIW_RTR_WRITE | XIW_RTR_READ,
		.ird = min_t(u32, param->ird, XIW_MAX_IRD),
		.ord = min_t(u32, param->ord, XIW_MAX_ORD),
	};
	ret = cm_copy_pdata(ep, &ep->ours, param->private_data, param->private_data_len);
	if (ret)
		return ret;
	ret = xiw_ep_claim(ep, qp);
	if (ret)
		return ret;
	xiw_ep_bind(ep, cm_id, qp);
	ret = xiw_ep_dial(ep);
	if (ret)
		xiw_ep_unbind(ep);
	return ret;
}

/**
 * xiw_cm_connect - iw_cm_connect(): connect a queue pair
 * @cm_id: the addresses; gets the events
 * @param: queue pair, depths, private data
 *
 * Asks for MPA revision 2 in the peer-to-peer model, and tries again with revision 1 if the peer
 * does not know revision 2 (RFC 6581). A CONNECT_REPLY event reports the outcome.
 *
 * Return: 0; -EINVAL if there is no such queue pair or it is in use; -ENETUNREACH if the device and
 * the caller are in different network namespaces (the rdma_cm finds a device by the index of a
 * netdev, which is not unique among namespaces); -ENOMEM; or an errno of TCP.
 */
int xiw_cm_connect(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param)
{
	struct xiw_device *dev = to_xiw_device(cm_id->device);
	struct xiw_qp *qp;
	struct xiw_ep *ep;
	int ret;

	if (!xiw_cm_concerns(cm_id, dev))
		return -ENETUNREACH;
	qp = cm_find_qp(cm_id, param->qpn);
	if (!qp)
		return -EINVAL;
	ep = xiw_ep_create(dev, XIW_EP_CONNECTING, qp->lane);
	if (!ep) {
		xiw_qp_put(qp);
		return -ENOMEM;
	}
	mutex_lock(&ep->lock);
	ret = cm_dial(ep, cm_id, param, qp);
	if (ret)
		xiw_ep_finish(ep, ret, XIW_OK);
	xiw_ep_unlock(ep);
	xiw_ep_put(ep);
	xiw_qp_put(qp);
	return ret;
}

/* Return: as xiw_mpa_answer(), for a consumer that grants @ird Reads and wants @ord. */
static int cm_build_reply(struct xiw_mpa *reply, struct xiw_mpa_terms *terms,
			  const struct xiw_ep *ep, u32 ird, u32 ord)
{
	struct xiw_mpa_offer offer = {
		.crc = xiw_setting(&ep->dev->settings, XIW_SET_CRC),
		.large_fpdus = xiw_setting(&ep->dev->settings, XIW_SET_LARGE_FPDUS),
		.ird = min_t(u32, ird, XIW_MAX_IRD),
		.ord = min_t(u32, ord, XIW_MAX_ORD),
		.max_ird = XIW_MAX_IRD,
	};

	return xiw_mpa_answer(reply, terms, &ep->theirs, &offer);
}

static int cm_send_reply(struct xiw_ep *ep, const struct xiw_mpa *reply)
{
	u8 frame[XIW_MPA_FRAME_MAX];
	int len = xiw_mpa_build(frame, reply);

	return len < 0 ? len : xiw_sock_send(ep->sk, frame, len);
}

/*
 * Attaches the queue pair, then sends the Reply, and only then anything of the stream. In the
 * peer-to-peer model the queue pair then waits for the initiator's first FPDU. RFC 5044 section
 * 7.1.2 asks for that in the other model too, where the setting responder_hold can switch it off.
 */
static int cm_start_stream(struct xiw_ep *ep, const struct xiw_mpa *reply)
{
	bool hold = ep->terms.rtr || xiw_setting(&ep->dev->settings, XIW_SET_RESPONDER_HOLD);
	bool more = false;
	int ret;

	xiw_pause("cm_reply");
	lock_sock(ep->sk);
	/* The caller may send nothing before it has the Reply. */
	ret = xiw_sock_has_input(ep->sk) ? -ECONNRESET :
	      xiw_qp_attach(ep->qp, ep, ep->sk, &ep->terms, hold);
	if (!ret)
		ret = cm_send_reply(ep, reply);
	xiw_pause("cm_replied");
	if (!ret)
		more = xiw_tx_run(ep->qp, XIW_TX_BUDGET_INLINE);
	xiw_sock_unlock(ep->sk);
	xiw_qp_unlocked(ep->qp);
	if (more)
		xiw_worker_queue(ep->qp);
	return ret;
}

static int cm_answer(struct xiw_ep *ep, struct iw_cm_id *cm_id, struct iw_cm_conn_param *param,
		     struct xiw_qp *qp)
{
	struct xiw_mpa reply;
	int ret;

	if (param->private_data_len > MPA_MAX_PRIVATE_DATA - sizeof(struct xiw_mpa_enhanced))
		return -EINVAL;
	ret = cm_build_reply(&reply, &ep->terms, ep, param->ird, param->ord);
	reply.pd = param->private_data;
	reply.pd_len = param->private_data_len;
	if (ret) {
		reply.reject = true;
		lock_sock(ep->sk);
		cm_send_reply(ep, &reply);
		xiw_sock_unlock(ep->sk);
		return ret;
	}
	ret = xiw_ep_claim(ep, qp);
	if (ret)
		return ret;
	xiw_ep_bind(ep, cm_id, qp);
	ret = xiw_sock_charge(ep->sk, qp->payer) ? cm_start_stream(ep, &reply) : -ENOMEM;
	if (!ret)
		xiw_ep_accepted(ep);
	return ret;
}

/**
 * xiw_cm_accept - iw_cm_accept(): accept a connection
 * @cm_id: from the CONNECT_REQUEST event
 * @param: queue pair, depths, private data
 *
 * In the peer-to-peer model the ESTABLISHED event is raised when the initiator's RTR message has
 * arrived (RFC 6581 section 5).
 *
 * Return: 0; -ECONNRESET if the peer is gone, or sent something instead of waiting for the Reply;
 * -EINVAL if there is no such queue pair or it is in use; -EMSGSIZE if the peer asks for more Reads
 * than the device supports; -ENOMEM.
 */
int xiw_cm_accept(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param)
{
	struct xiw_ep *ep = xiw_ep_find(cm_id);
	struct xiw_qp *qp;
	int ret = -ECONNRESET;

	if (!ep)
		return ret;
	qp = cm_find_qp(cm_id, param->qpn);
	xiw_pause("cm_accept");
	mutex_lock(&ep->lock);
	if (ep->state == XIW_EP_ASKED) {
		ret = qp ? cm_answer(ep, cm_id, param, qp) : -EINVAL;
		if (ret)
			xiw_ep_finish(ep, ret, XIW_OK);
	}
	xiw_ep_unlock(ep);
	if (qp)
		xiw_qp_put(qp);
	xiw_ep_put(ep);
	return ret;
}

/**
 * xiw_cm_reject - iw_cm_reject(): refuse a connection
 * @cm_id: from the CONNECT_REQUEST event
 * @pdata: private data for the peer
 * @pdata_len: bytes of @pdata
 *
 * Return: 0, or -ECONNRESET if the peer is gone.
 */
int xiw_cm_reject(struct iw_cm_id *cm_id, const void *pdata, u8 pdata_len)
{
	struct xiw_ep *ep = xiw_ep_find(cm_id);
	struct xiw_mpa_terms terms;
	struct xiw_mpa reply;

	if (!ep)
		return -ECONNRESET;
	mutex_lock(&ep->lock);
	if (ep->state == XIW_EP_ASKED) {
		cm_build_reply(&reply, &terms, ep, 0, 0);
		reply.reject = true;
		reply.pd = pdata;
		reply.pd_len = pdata_len;
		lock_sock(ep->sk);
		cm_send_reply(ep, &reply);
		xiw_sock_unlock(ep->sk);
		xiw_ep_finish(ep, -ECONNREFUSED, XIW_OK);
	}
	xiw_ep_unlock(ep);
	xiw_ep_put(ep);
	return 0;
}

void xiw_cm_drain(struct xiw_device *dev)
{
	struct xiw_ep *ep;

	while ((ep = xiw_ep_any(dev))) {
		xiw_ep_kill(ep);
		xiw_ep_put(ep);
	}
	xiw_ep_await_all(dev);
}
