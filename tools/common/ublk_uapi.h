/* SPDX-License-Identifier: BSD-3-Clause */
/* ublk_uapi.h - what <linux/ublk_cmd.h> of Linux 6.1 lacks, from the same file
 * of Linux 6.12.  A driver with UBLK_F_CMD_IOCTL_ENCODE takes commands in this
 * encoding.  It may have been built without the old one.
 */

#ifndef FARPAGE_UBLK_UAPI_H
#define FARPAGE_UBLK_UAPI_H

#include <linux/ublk_cmd.h>
#include <sys/ioctl.h>

#ifndef UBLK_F_CMD_IOCTL_ENCODE
#define UBLK_F_CMD_IOCTL_ENCODE (1ull << 6)
#endif
#ifndef UBLK_U_CMD_ADD_DEV
#define UBLK_U_CMD_GET_DEV_INFO                                               \
  _IOR ('u', UBLK_CMD_GET_DEV_INFO, struct ublksrv_ctrl_cmd)
#define UBLK_U_CMD_ADD_DEV                                                    \
  _IOWR ('u', UBLK_CMD_ADD_DEV, struct ublksrv_ctrl_cmd)
#define UBLK_U_CMD_DEL_DEV                                                    \
  _IOWR ('u', UBLK_CMD_DEL_DEV, struct ublksrv_ctrl_cmd)
#define UBLK_U_CMD_START_DEV                                                  \
  _IOWR ('u', UBLK_CMD_START_DEV, struct ublksrv_ctrl_cmd)
#define UBLK_U_CMD_STOP_DEV                                                   \
  _IOWR ('u', UBLK_CMD_STOP_DEV, struct ublksrv_ctrl_cmd)
#define UBLK_U_CMD_SET_PARAMS                                                 \
  _IOWR ('u', UBLK_CMD_SET_PARAMS, struct ublksrv_ctrl_cmd)
#define UBLK_U_CMD_START_USER_RECOVERY                                        \
  _IOWR ('u', UBLK_CMD_START_USER_RECOVERY, struct ublksrv_ctrl_cmd)
#define UBLK_U_CMD_END_USER_RECOVERY                                          \
  _IOWR ('u', UBLK_CMD_END_USER_RECOVERY, struct ublksrv_ctrl_cmd)
#define UBLK_U_IO_FETCH_REQ                                                   \
  _IOWR ('u', UBLK_IO_FETCH_REQ, struct ublksrv_io_cmd)
#define UBLK_U_IO_COMMIT_AND_FETCH_REQ                                        \
  _IOWR ('u', UBLK_IO_COMMIT_AND_FETCH_REQ, struct ublksrv_io_cmd)
#endif
#ifndef UBLK_U_CMD_GET_FEATURES
#define UBLK_U_CMD_GET_FEATURES _IOR ('u', 0x13, struct ublksrv_ctrl_cmd)
#endif

#endif /* FARPAGE_UBLK_UAPI_H */
