/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* The system calls of uverbs as data: what a good caller passes to each. */
#pragma once

#include <cstdint>
#include <vector>

namespace calls
{

enum class Kind { none, pd, cq, qp, srq, mr, mw, dm, channel };

/* A part of a request: how a good caller chooses it. */
struct Field {
	enum class What { fixed, up_to, handle, page, reply } what;
	std::uint64_t value = 0; /* the number, or the limit */
	Kind kind = Kind::none;
	bool wide = false; /* 64 bits */
};

/* A command of the older interface: write() of a header and a request. */
struct Command {
	const char *name;
	std::uint32_t number;
	std::vector<Field> fields;
	Kind creates = Kind::none;
	Kind destroys = Kind::none;
	unsigned int driver_reply = 0; /* where the reply of the driver starts, in octets, or 0 */
};

/* An attribute of the newer interface, ioctl(). */
struct Attribute {
	enum class How { created, object, in, out } how;
	std::uint16_t id;
	std::vector<Field> fields = {}; /* of an object its handle, of "in" the octets */
	std::uint16_t length = 0;	/* of "out" */
};

struct Method {
	const char *name;
	std::uint16_t object, number;
	std::vector<Attribute> attributes;
	Kind creates = Kind::none;
	Kind destroys = Kind::none;
};

extern const std::vector<Command> commands;
extern const std::vector<Method> methods;

} /* namespace calls */
