// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* setting.c - the settings of a device: /sys/class/infiniband/NAME/xiw/ */

#include <linux/capability.h>
#include <linux/kstrtox.h>
#include <linux/sysfs.h>
#include <rdma/ib_verbs.h>

#include "conn/tune.h"
#include "device.h"
#include "setting.h"

/**
 * struct setting - a setting that is a number
 * @attr: its file in sysfs
 * @min: the smallest value
 * @max: the largest value
 * @initial: the value of a new device
 */
struct setting {
	struct device_attribute	attr;
	u32			min;
	u32			max;
	u32			initial;
};

static struct xiw_device *setting_device(struct device *device)
{
	return rdma_device_to_drv_device(device, struct xiw_device, ibdev);
}

static ssize_t setting_show(struct device *device, struct device_attribute *attr, char *buf);
static ssize_t setting_store(struct device *device, struct device_attribute *attr, const char *buf,
			     size_t count);

#define SETTING(name, min_, max_, initial_)	{			\
	.attr = __ATTR(name, 0644, setting_show, setting_store),	\
	.min = (min_), .max = (max_), .initial = (initial_),		\
}

/* USING.md has the same numbers, and tests/netns/settings.sh compares them. */
static struct setting settings_table[XIW_NUM_SETTINGS] = {
	[XIW_SET_CRC]			= SETTING(crc, 0, 1, 1),
	[XIW_SET_RESPONDER_HOLD]	= SETTING(responder_hold, 0, 1, 1),
	[XIW_SET_LOOPBACK]		= SETTING(loopback, 0, 1, 1),
	[XIW_SET_LARGE_FPDUS]		= SETTING(large_fpdus, 0, 1, 1),
	[XIW_SET_CONNECT_MS]		= SETTING(connect_ms, 100, 600000, 10000),
	[XIW_SET_REQUEST_MS]		= SETTING(request_ms, 100, 600000, 5000),
	[XIW_SET_OPENING_MS]		= SETTING(opening_ms, 100, 600000, 10000),
	[XIW_SET_RECEIVE_WAIT_MS]	= SETTING(receive_wait_ms, 0, 60000, 1000),
	[XIW_SET_CLOSE_MS]		= SETTING(close_ms, 100, 60000, 3000),
	[XIW_SET_HALF_OPEN]		= SETTING(half_open, 1, 65536, 1024),
	[XIW_SET_SPIN_US]		= SETTING(spin_us, 0, 1000, 50),
	[XIW_SET_GATHER_US]		= SETTING(gather_us, 0, 20000, 100),
	[XIW_SET_RCVBUF]		= SETTING(rcvbuf, 262144, 16777216, 262144),
	[XIW_SET_USER_TIMEOUT_MS]	= SETTING(user_timeout_ms, 0, 3600000, 0),
	[XIW_SET_KEEPALIVE_S]		= SETTING(keepalive_s, 0, 32767, 0),
	[XIW_SET_DSCP]			= SETTING(dscp, 0, 63, 0),
};

static const struct setting *setting_of(struct device_attribute *attr)
{
	return container_of(attr, struct setting, attr);
}

static ssize_t setting_show(struct device *device, struct device_attribute *attr, char *buf)
{
	enum xiw_setting which = setting_of(attr) - settings_table;

	return sysfs_emit(buf, "%u\n", xiw_setting(&setting_device(device)->settings, which));
}

/*
 * In shared mode each network namespace has these files of each device. A container must not change
 * what others have set, so only those in the namespace of the netdev and in that of the host can be
 * written. In exclusive mode there are no others.
 */
static bool setting_may_change(struct device *device)
{
	const struct ib_core_device *shown = container_of(device, struct ib_core_device, dev);
	const struct xiw_device *dev = setting_device(device);

	if (!capable(CAP_NET_ADMIN))
		return false;
	return device == &dev->ibdev.dev ||
	       net_eq(read_pnet(&shown->rdma_net), read_pnet(&dev->net));
}

static ssize_t setting_store(struct device *device, struct device_attribute *attr, const char *buf,
			     size_t count)
{
	const struct setting *setting = setting_of(attr);
	u32 value;
	int ret;

	if (!setting_may_change(device))
		return -EPERM;
	ret = kstrtou32(buf, 10, &value);
	if (ret == -ERANGE || (!ret && (value < setting->min || value > setting->max)))
		ret = -EINVAL;
	if (ret)
		return ret;
	WRITE_ONCE(setting_device(device)->settings.value[setting - settings_table], value);
	return count;
}

static ssize_t congestion_show(struct device *device, struct device_attribute *attr, char *buf)
{
	struct xiw_settings *settings = &setting_device(device)->settings;

	return sysfs_emit(buf, "%s\n", xiw_tune_congestion(settings).text);
}

/* An empty line stands for what the system has set. */
static ssize_t congestion_store(struct device *device, struct device_attribute *attr,
				const char *buf, size_t count)
{
	if (!setting_may_change(device))
		return -EPERM;
	return xiw_tune_set_congestion(&setting_device(device)->settings, buf) ?: count;
}

static DEVICE_ATTR_RW(congestion);

/* The kernel-doc of public functions is in setting.h. */
void xiw_settings_default(struct xiw_settings *settings)
{
	unsigned int i;

	for (i = 0; i < XIW_NUM_SETTINGS; i++)
		settings->value[i] = settings_table[i].initial;
	spin_lock_init(&settings->lock);
}

void xiw_settings_end(struct xiw_settings *settings)
{
	xiw_tune_set_congestion(settings, "");
}

/* The numbers, "congestion", and the end. */
static struct attribute *setting_attrs[XIW_NUM_SETTINGS + 2];

const struct attribute_group xiw_setting_group = {
	.name = "xiw",
	.attrs = setting_attrs,
};

void __init xiw_settings_init(void)
{
	unsigned int i;

	for (i = 0; i < XIW_NUM_SETTINGS; i++)
		setting_attrs[i] = &settings_table[i].attr.attr;
	setting_attrs[i] = &dev_attr_congestion.attr;
}
