/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
#include "calls.hpp"

#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/xiw-abi.h>

#include <utility>

namespace calls
{

namespace
{

constexpr Field word(std::uint64_t value)
{
	return { Field::What::fixed, value };
}

constexpr Field wide(std::uint64_t value)
{
	return { Field::What::fixed, value, Kind::none, true };
}

constexpr Field up_to(std::uint64_t limit)
{
	return { Field::What::up_to, limit };
}

constexpr Field wide_up_to(std::uint64_t limit)
{
	return { Field::What::up_to, limit, Kind::none, true };
}

constexpr Field handle(Kind kind)
{
	return { Field::What::handle, 0, kind };
}

constexpr Field page{ Field::What::page, 0, Kind::none, true };
constexpr Field reply{ Field::What::reply, 0, Kind::none, true };
constexpr std::uint32_t access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND;
constexpr std::uint32_t extended = IB_USER_VERBS_CMD_FLAG_EXTENDED;
constexpr std::uint32_t rc = IBV_QPT_RC << 8, rc_with_srq = rc | 1 << 16;

Attribute created()
{
	return { Attribute::How::created, 0 };
}

Attribute object(std::uint16_t id, Kind kind)
{
	return { Attribute::How::object, id, { handle(kind) } };
}

Attribute in(std::uint16_t id, std::vector<Field> fields)
{
	return { Attribute::How::in, id, std::move(fields) };
}

Attribute out(std::uint16_t id, std::uint16_t length)
{
	return { Attribute::How::out, id, {}, length };
}

} /* namespace */

const std::vector<Command> commands = {
	{ "query_device", IB_USER_VERBS_CMD_QUERY_DEVICE, { reply } },
	{ "query_device, extended",
	  IB_USER_VERBS_CMD_QUERY_DEVICE | extended,
	  { word(0), word(0) } },
	{ "query_port", IB_USER_VERBS_CMD_QUERY_PORT, { reply, word(1), word(0) } },
	{ "alloc_pd", IB_USER_VERBS_CMD_ALLOC_PD, { reply }, Kind::pd },
	{ "dealloc_pd", IB_USER_VERBS_CMD_DEALLOC_PD, { handle(Kind::pd) }, Kind::none, Kind::pd },
	{ "reg_mr",
	  IB_USER_VERBS_CMD_REG_MR,
	  { reply, page, wide_up_to(20000), page, handle(Kind::pd), word(access) },
	  Kind::mr },
	{ "rereg_mr",
	  IB_USER_VERBS_CMD_REREG_MR,
	  { reply, handle(Kind::mr), up_to(7), page, wide_up_to(20000), page, handle(Kind::pd),
	    word(access) } },
	{ "dereg_mr", IB_USER_VERBS_CMD_DEREG_MR, { handle(Kind::mr) }, Kind::none, Kind::mr },
	{ "alloc_mw", IB_USER_VERBS_CMD_ALLOC_MW, { reply, handle(Kind::pd), up_to(2) }, Kind::mw },
	{ "dealloc_mw", IB_USER_VERBS_CMD_DEALLOC_MW, { handle(Kind::mw) }, Kind::none, Kind::mw },
	{ "create_comp_channel", IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, { reply }, Kind::channel },
	{ "create_cq",
	  IB_USER_VERBS_CMD_CREATE_CQ,
	  { reply, wide(0), up_to(64), word(0), word(~0u), word(0) },
	  Kind::cq,
	  Kind::none,
	  8 },
	{ "create_cq with a channel",
	  IB_USER_VERBS_CMD_CREATE_CQ,
	  { reply, wide(0), up_to(64), word(0), handle(Kind::channel), word(0) },
	  Kind::cq,
	  Kind::none,
	  8 },
	{ "create_cq, extended",
	  IB_USER_VERBS_CMD_CREATE_CQ | extended,
	  { wide(0), up_to(64), word(0), word(~0u), word(0), word(0), word(0) },
	  Kind::cq,
	  Kind::none,
	  16 },
	{ "resize_cq",
	  IB_USER_VERBS_CMD_RESIZE_CQ,
	  { reply, handle(Kind::cq), up_to(256) },
	  Kind::none,
	  Kind::none,
	  8 },
	{ "destroy_cq",
	  IB_USER_VERBS_CMD_DESTROY_CQ,
	  { reply, handle(Kind::cq), word(0) },
	  Kind::none,
	  Kind::cq },
	{ "create_qp",
	  IB_USER_VERBS_CMD_CREATE_QP,
	  { reply, wide(0), handle(Kind::pd), handle(Kind::cq), handle(Kind::cq), word(0),
	    up_to(64), up_to(64), up_to(4), up_to(4), up_to(64), word(rc) },
	  Kind::qp,
	  Kind::none,
	  32 },
	{ "create_qp with an SRQ",
	  IB_USER_VERBS_CMD_CREATE_QP,
	  { reply, wide(0), handle(Kind::pd), handle(Kind::cq), handle(Kind::cq), handle(Kind::srq),
	    up_to(64), up_to(64), up_to(4), up_to(4), up_to(64), word(rc_with_srq) },
	  Kind::qp,
	  Kind::none,
	  32 },
	{ "create_qp, extended",
	  IB_USER_VERBS_CMD_CREATE_QP | extended,
	  { wide(0), handle(Kind::pd), handle(Kind::cq), handle(Kind::cq), word(0), up_to(64),
	    up_to(64), up_to(4), up_to(4), up_to(64), word(rc), word(0), word(0), word(0),
	    word(0) },
	  Kind::qp,
	  Kind::none,
	  40 },
	{ "query_qp", IB_USER_VERBS_CMD_QUERY_QP, { reply, handle(Kind::qp), up_to(0xffff) } },
	{ "modify_qp",
	  IB_USER_VERBS_CMD_MODIFY_QP,
	  { wide(0), wide(0),  wide(0), wide(0),	  wide(0),
	    wide(0), wide(0),  wide(0), handle(Kind::qp), word(IBV_QP_STATE),
	    word(0), word(0),  word(0), word(0),	  word(0),
	    word(0), up_to(6), word(0), word(0),	  word(0) } },
	{ "destroy_qp",
	  IB_USER_VERBS_CMD_DESTROY_QP,
	  { reply, handle(Kind::qp), word(0) },
	  Kind::none,
	  Kind::qp },
	{ "post_send",
	  IB_USER_VERBS_CMD_POST_SEND,
	  { reply, handle(Kind::qp), word(0), word(0), word(sizeof(ib_uverbs_send_wr)) } },
	{ "post_recv",
	  IB_USER_VERBS_CMD_POST_RECV,
	  { reply, handle(Kind::qp), word(0), word(0), word(sizeof(ib_uverbs_recv_wr)) } },
	{ "create_srq",
	  IB_USER_VERBS_CMD_CREATE_SRQ,
	  { reply, wide(0), handle(Kind::pd), up_to(64), up_to(4), word(0) },
	  Kind::srq,
	  Kind::none,
	  16 },
	{ "modify_srq",
	  IB_USER_VERBS_CMD_MODIFY_SRQ,
	  { handle(Kind::srq), up_to(3), up_to(128), up_to(4), page } },
	{ "query_srq", IB_USER_VERBS_CMD_QUERY_SRQ, { reply, handle(Kind::srq), word(0) } },
	{ "destroy_srq",
	  IB_USER_VERBS_CMD_DESTROY_SRQ,
	  { reply, handle(Kind::srq), word(0) },
	  Kind::none,
	  Kind::srq },
};

const std::vector<Method> methods = {
	{ "query_context",
	  UVERBS_OBJECT_DEVICE,
	  UVERBS_METHOD_QUERY_CONTEXT,
	  { out(UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, 4),
	    out(UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, 8) } },
	{ "CQ create",
	  UVERBS_OBJECT_CQ,
	  UVERBS_METHOD_CQ_CREATE,
	  { created(), in(UVERBS_ATTR_CREATE_CQ_CQE, { up_to(64) }),
	    in(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, { wide(0) }),
	    in(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, { word(0) }),
	    out(UVERBS_ATTR_CREATE_CQ_RESP_CQE, 4),
	    out(UVERBS_ATTR_UHW_OUT, sizeof(xiw_create_cq_resp)) },
	  Kind::cq },
	{ "CQ destroy",
	  UVERBS_OBJECT_CQ,
	  UVERBS_METHOD_CQ_DESTROY,
	  { object(UVERBS_ATTR_DESTROY_CQ_HANDLE, Kind::cq), out(UVERBS_ATTR_DESTROY_CQ_RESP, 8) },
	  Kind::none,
	  Kind::cq },
	{ "QP create",
	  UVERBS_OBJECT_QP,
	  UVERBS_METHOD_QP_CREATE,
	  { created(), object(UVERBS_ATTR_CREATE_QP_PD_HANDLE, Kind::pd),
	    object(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, Kind::cq),
	    object(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, Kind::cq),
	    in(UVERBS_ATTR_CREATE_QP_USER_HANDLE, { wide(0) }),
	    in(UVERBS_ATTR_CREATE_QP_CAP, { up_to(64), up_to(64), up_to(4), up_to(4), up_to(64) }),
	    in(UVERBS_ATTR_CREATE_QP_TYPE, { wide(IBV_QPT_RC) }),
	    out(UVERBS_ATTR_CREATE_QP_RESP_CAP, 20), out(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, 4),
	    out(UVERBS_ATTR_UHW_OUT, sizeof(xiw_create_qp_resp)) },
	  Kind::qp },
	{ "QP destroy",
	  UVERBS_OBJECT_QP,
	  UVERBS_METHOD_QP_DESTROY,
	  { object(UVERBS_ATTR_DESTROY_QP_HANDLE, Kind::qp), out(UVERBS_ATTR_DESTROY_QP_RESP, 4) },
	  Kind::none,
	  Kind::qp },
	{ "SRQ create",
	  UVERBS_OBJECT_SRQ,
	  UVERBS_METHOD_SRQ_CREATE,
	  { created(), object(UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, Kind::pd),
	    in(UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, { wide(0) }),
	    in(UVERBS_ATTR_CREATE_SRQ_MAX_WR, { up_to(64) }),
	    in(UVERBS_ATTR_CREATE_SRQ_MAX_SGE, { up_to(4) }),
	    in(UVERBS_ATTR_CREATE_SRQ_LIMIT, { word(0) }),
	    in(UVERBS_ATTR_CREATE_SRQ_TYPE, { wide(0) }),
	    out(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, 4), out(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, 4),
	    out(UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, 4),
	    out(UVERBS_ATTR_UHW_OUT, sizeof(xiw_create_srq_resp)) },
	  Kind::srq },
	{ "DM alloc",
	  UVERBS_OBJECT_DM,
	  UVERBS_METHOD_DM_ALLOC,
	  { created(), in(UVERBS_ATTR_ALLOC_DM_LENGTH, { wide_up_to(20000) }),
	    in(UVERBS_ATTR_ALLOC_DM_ALIGNMENT, { up_to(12) }) },
	  Kind::dm },
	{ "DM free",
	  UVERBS_OBJECT_DM,
	  UVERBS_METHOD_DM_FREE,
	  { object(UVERBS_ATTR_FREE_DM_HANDLE, Kind::dm) },
	  Kind::none,
	  Kind::dm },
	{ "DM query",
	  UVERBS_OBJECT_DM,
	  XIW_METHOD_DM_QUERY,
	  { object(XIW_ATTR_DM_QUERY_HANDLE, Kind::dm),
	    out(XIW_ATTR_DM_QUERY_RESP, sizeof(xiw_query_dm_resp)) } },
	{ "MR of a DM",
	  UVERBS_OBJECT_MR,
	  UVERBS_METHOD_DM_MR_REG,
	  { created(), in(UVERBS_ATTR_REG_DM_MR_OFFSET, { wide_up_to(64) }),
	    in(UVERBS_ATTR_REG_DM_MR_LENGTH, { wide_up_to(4096) }),
	    object(UVERBS_ATTR_REG_DM_MR_PD_HANDLE, Kind::pd),
	    in(UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, { word(access | IBV_ACCESS_ZERO_BASED) }),
	    object(UVERBS_ATTR_REG_DM_MR_DM_HANDLE, Kind::dm),
	    out(UVERBS_ATTR_REG_DM_MR_RESP_LKEY, 4), out(UVERBS_ATTR_REG_DM_MR_RESP_RKEY, 4) },
	  Kind::mr },
	{ "MR destroy",
	  UVERBS_OBJECT_MR,
	  UVERBS_METHOD_MR_DESTROY,
	  { object(UVERBS_ATTR_DESTROY_MR_HANDLE, Kind::mr) },
	  Kind::none,
	  Kind::mr },
	{ "PD destroy",
	  UVERBS_OBJECT_PD,
	  UVERBS_METHOD_PD_DESTROY,
	  { object(UVERBS_ATTR_DESTROY_PD_HANDLE, Kind::pd) },
	  Kind::none,
	  Kind::pd },
	{ "MW destroy",
	  UVERBS_OBJECT_MW,
	  UVERBS_METHOD_MW_DESTROY,
	  { object(UVERBS_ATTR_DESTROY_MW_HANDLE, Kind::mw) },
	  Kind::none,
	  Kind::mw },
};

} /* namespace calls */
