# SPDX-License-Identifier: BSD-3-Clause
"""The systems that farpage is compared with.  Each peer sets itself up, names
fio's target, and takes itself down.  A peer that this machine cannot run says
why, and is left out.  Nothing here measures."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

NQN = "nqn.2026-01.org.example:farpage-peers"
HOST_ID = "11111111-2222-3333-4444-555555555555"
NVMET = "/sys/kernel/config/nvmet"
DEADLINE_S = 60


class Unavailable(Exception):
    """This machine cannot run that peer; the text says why."""


def call(*argv):
    """Run a program to its end. Return its output, or raise with its error."""
    # Files, because a process that stays in the background (nbd-client) would
    # keep a pipe open.
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        done = subprocess.run(argv, stdout=out, stderr=err, check=False, timeout=DEADLINE_S)
        out.seek(0)
        err.seek(0)
        said, error = out.read(), err.read()
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: {(error or said).strip()}")
    return said


def wait_for(what, ready):
    until = time.monotonic() + DEADLINE_S
    while not ready():
        if time.monotonic() > until:
            raise RuntimeError(f"no {what} within {DEADLINE_S} s")
        time.sleep(0.05)


def need_program(*names):
    for name in names:
        if shutil.which(name) is None:
            raise Unavailable(f"{name} is not installed")


def need_module(*names):
    if os.geteuid() != 0:
        raise Unavailable("only root can load modules")
    for name in names:
        if subprocess.run(["modprobe", "-q", name], check=False).returncode != 0:
            raise Unavailable(f"no kernel module {name}")


def write(path, text):
    with open(path, "w", encoding="ascii") as f:
        f.write(text)


class Setup:
    """Settings of a run: directory for files, size of volumes in MiB, address of
    an RDMA device, and disk that may be overwritten."""

    def __init__(self, directory, mib, address, disk=None):
        self.dir, self.mib, self.address, self.disk = directory, mib, address, disk


class Peer:
    """client and donor name the programs whose processor time counts as the
    client's and the donor's.  The kernel's own time is in neither."""
    name = ""
    device = False  # a block device, not an NBD server
    client = ()
    donor = ()

    def __init__(self, setup):
        self.setup = setup
        self.processes = []

    def up(self):
        """Set the peer up. Return fio's target, a device or an NBD URI."""
        raise NotImplementedError

    def down(self):
        for p in reversed(self.processes):
            p.send_signal(signal.SIGTERM)
            try:
                p.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
        self.processes.clear()

    def start(self, *argv):
        log = self.path(os.path.basename(argv[0]) + ".log")
        with open(log, "ab") as f:
            self.processes.append(subprocess.Popen(argv, stdout=f, stderr=f))

    def logs(self):
        """Return the last line of each program's log."""
        said = ""
        for name in sorted(os.listdir(self.setup.dir)):
            if name.endswith(".log"):
                with open(os.path.join(self.setup.dir, name), encoding="utf-8",
                          errors="replace") as f:
                    lines = f.read().split("\n")
                said += "".join(f"; {line}" for line in lines[-2:-1])
        return said

    def path(self, name):
        return os.path.join(self.setup.dir, name)

    def wait_for_path(self, path):
        def there():
            if self.processes and self.processes[-1].poll() is not None:
                raise RuntimeError(f"{self.processes[-1].args[0]} ended at once")
            return os.path.exists(path) and (
                not path.endswith(".addr") or os.path.getsize(path) > 0)
        wait_for(path, there)

    def pids(self, names):
        cut, found = [n[:15] for n in names], []  # the kernel's TASK_COMM_LEN
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/comm", encoding="ascii", errors="replace") as f:
                    if f.read().strip() in cut:
                        found.append(int(pid))
        return found


class NbdkitMemory(Peer):
    client = ("nbdkit",)

    def up(self):
        need_program("nbdkit")
        sock = self.path("sock")
        args = ["nbdkit", "-f", "memory", f"{self.setup.mib}M"]
        if self.tcp:
            args[2:2] = ["-i", "127.0.0.1", "-p", "10899"]
            self.start(*args)
            uri = "nbd://127.0.0.1:10899"
        else:
            args[2:2] = ["-U", sock]
            self.start(*args)
            uri = f"nbd+unix:///?socket={sock}"
        wait_for("answer of nbdkit", lambda: subprocess.run(
            ["nbdinfo", "--size", uri], capture_output=True, check=False).returncode == 0)
        return uri


class NbdkitMemoryUnix(NbdkitMemory):
    name = "nbdkit memory, unix"
    tcp = False


class NbdkitMemoryTcp(NbdkitMemory):
    name = "nbdkit memory, tcp"
    tcp = True


class NbdServer(Peer):
    """nbd-server on a file of a tmpfs."""
    name = "nbd-server, tcp"
    client = ("nbd-server",)

    def up(self):
        need_program("nbd-server")
        self.file = f"/dev/shm/farpage-peers.{os.getpid()}"
        with open(self.file, "wb") as f:
            f.truncate(self.setup.mib << 20)
        conf = self.path("conf")
        write(conf, "[generic]\nlistenaddr = 127.0.0.1\nport = 10898\n"
              f"[x]\nexportname = {self.file}\nflush = true\n")
        # In the foreground nbd-server ends after one client.
        self.pidfile = self.path("pid")
        call("nbd-server", "-C", conf, "-p", self.pidfile)
        uri = "nbd://127.0.0.1:10898/x"
        wait_for("answer of nbd-server", lambda: subprocess.run(
            ["nbdinfo", "--size", uri], capture_output=True, check=False).returncode == 0)
        return uri

    def down(self):
        with contextlib.suppress(FileNotFoundError, AttributeError, ProcessLookupError):
            with open(self.pidfile, encoding="ascii") as f:
                os.kill(int(f.read()), signal.SIGTERM)
        with contextlib.suppress(FileNotFoundError, AttributeError):
            os.unlink(self.file)


class Farpage(Peer):
    """farpage behind nbdkit on a Unix socket."""
    client = ("nbdkit",)
    donor = ("farpage-memserver",)
    transport = ""
    copies = 1

    def servers(self):
        need_program("nbdkit", "farpage-memserver")
        addresses = []
        size = (self.setup.mib + 63) // 64 * 64 + 128  # whole slabs, and some to spare
        for i in range(self.copies):
            usock, addr = self.path(f"{i}.usock"), self.path(f"{i}.addr")
            self.start("farpage-memserver", "--size", f"{size}M", "--slab", "64M",
                       "--reserve", "0", "--insecure",
                       "--listen", f"{self.setup.address or '127.0.0.1'}:0",
                       "--listen", f"unix:{usock}", "--address-file", addr)
            self.wait_for_path(addr)
            with open(addr, encoding="ascii") as f:
                lines = f.read().split()
            shm = self.transport == "shm"
            addresses.append(next(a for a in lines if a.startswith("unix:") == shm))
            self.populated(addresses[-1])
        return addresses

    @staticmethod
    def populated(address):
        def done():
            out = subprocess.run(["farpage", "servers", "--json", address],
                                 capture_output=True, text=True, check=False)
            return out.returncode == 0 and \
                json.loads(out.stdout)["servers"][0]["slabs_unpopulated"] == 0
        wait_for("populated memory", done)

    def params(self, addresses):
        return [f"server={a}" for a in addresses] + [
            f"size={self.setup.mib}M", f"transport={self.transport}"] + (
                [f"copies={self.copies}"] if self.copies > 1 else [])

    def up(self):
        plugin = os.environ.get("FARPAGE_PLUGIN", "farpage")
        sock = self.path("sock")
        addresses = self.servers()
        self.start("nbdkit", "-f", "-U", sock, plugin, *self.params(addresses))
        self.wait_for_path(sock)
        return f"nbd+unix:///?socket={sock}"


class FarpageShm(Farpage):
    name = "farpage shm"
    transport = "shm"


class FarpageShm2(FarpageShm):
    name = "farpage shm, 2 copies"
    copies = 2


class FarpageTcp(Farpage):
    name = "farpage tcp"
    transport = "tcp"


class FarpageTcp2(FarpageTcp):
    name = "farpage tcp, 2 copies"
    copies = 2


class FarpageDevice(Farpage):
    """The device of farpage attach: /dev/nbdX."""
    device = True
    front, module = "nbd", "nbd"

    def up(self):
        need_module(self.module)
        if self.transport == "rdma" and not self.setup.address:
            raise Unavailable("no RDMA device (--address)")
        self.attached = None
        addresses = self.servers()
        said = call("farpage", "attach", "--front", self.front, *self.params(addresses))
        self.attached = re.search(r"/dev/(nbd|ublkb)\d+", said).group()
        return self.attached

    def down(self):
        if getattr(self, "attached", None):
            call("farpage", "detach", self.attached)
            self.attached = None
        super().down()


class FarpageDeviceRdma(FarpageDevice):
    name = "farpage rdma, /dev/nbdX"
    transport = "rdma"


class FarpageDeviceRdma2(FarpageDeviceRdma):
    name = "farpage rdma, 2 copies, /dev/nbdX"
    copies = 2


class FarpageDeviceTcp(FarpageDevice):
    name = "farpage tcp, /dev/nbdX"
    transport = "tcp"


class FarpageDeviceTcp2(FarpageDeviceTcp):
    name = "farpage tcp, 2 copies, /dev/nbdX"
    copies = 2


class FarpageDeviceShm(FarpageDevice):
    name = "farpage shm, /dev/nbdX"
    transport = "shm"


class FarpageUblk(FarpageDevice):
    """The same through ublk: /dev/ublkbX."""
    client = ("farpage-ublk",)
    front, module = "ublk", "ublk_drv"


class FarpageUblkRdma(FarpageUblk):
    name = "farpage rdma, /dev/ublkbX"
    transport = "rdma"


class FarpageUblkTcp(FarpageUblk):
    name = "farpage tcp, /dev/ublkbX"
    transport = "tcp"


class FarpageUblkShm(FarpageUblk):
    name = "farpage shm, /dev/ublkbX"
    transport = "shm"


class NbdClient(Peer):
    """The kernel's client with nbdkit's memory plugin."""
    device = True
    client = ("nbdkit",)

    def up(self):
        need_program("nbdkit", "nbd-client")
        need_module("nbd")
        self.start("nbdkit", "-f", "-i", "127.0.0.1", "-p", "10897", "memory",
                   f"{self.setup.mib}M")
        wait_for("answer of nbdkit", lambda: subprocess.run(
            ["nbdinfo", "--size", "nbd://127.0.0.1:10897"],
            capture_output=True, check=False).returncode == 0)
        call("nbd-client", "127.0.0.1", "10897", "/dev/nbd9", "-C", "2", "-b", "4096")
        self.connected = True
        return "/dev/nbd9"

    name = "nbdkit memory, tcp, nbd-client"

    def down(self):
        if getattr(self, "connected", False):
            call("nbd-client", "-d", "/dev/nbd9")
        super().down()


class NbdServerClient(NbdServer):
    """nbd-server with the kernel's client."""
    name = "nbd-server, tcp, nbd-client"
    device = True

    def up(self):
        need_program("nbd-client")
        need_module("nbd")
        super().up()
        call("nbd-client", "127.0.0.1", "10898", "/dev/nbd9", "-N", "x", "-C", "1", "-b", "4096")
        self.connected = True
        return "/dev/nbd9"

    def down(self):
        if getattr(self, "connected", False):
            call("nbd-client", "-d", "/dev/nbd9")
        super().down()


class Brd(Peer):
    """The floor: the kernel's RAM disk."""
    name = "brd"
    device = True

    def up(self):
        need_module("brd")
        call("modprobe", "-r", "brd")
        call("modprobe", "brd", "rd_nr=1", f"rd_size={self.setup.mib * 1024}")
        return "/dev/ram0"

    def down(self):
        call("modprobe", "-r", "brd")


class Zram(Peer):
    """zram compresses, but fio's data here does not compress."""
    name = "zram"
    device = True

    def up(self):
        need_module("zram")
        need_program("zramctl")
        self.zram = call("zramctl", "-f", "-s", f"{self.setup.mib}M").strip()
        return self.zram

    def down(self):
        if getattr(self, "zram", None):
            call("zramctl", "-r", self.zram)
            self.zram = None


class Nvmeof(Brd):
    """nvmet on a brd disk, both ends on this machine."""
    trtype = ""

    def up(self):
        need_program("nvme")
        need_module("nvmet", f"nvmet-{self.trtype}", f"nvme-{self.trtype}")
        if self.trtype == "rdma" and not self.setup.address:
            raise Unavailable("no RDMA device (--address)")
        address = self.setup.address or "127.0.0.1"
        ram = super().up()
        subprocess.run(["mount", "-t", "configfs", "none", "/sys/kernel/config"],
                       capture_output=True, check=False)
        sub, port = f"{NVMET}/subsystems/{NQN}", f"{NVMET}/ports/1"
        os.makedirs(f"{sub}/namespaces/1")
        write(f"{sub}/attr_allow_any_host", "1")
        write(f"{sub}/namespaces/1/device_path", ram)
        write(f"{sub}/namespaces/1/enable", "1")
        os.makedirs(port)
        for key, value in (("trtype", self.trtype), ("adrfam", "ipv4"),
                           ("traddr", address), ("trsvcid", "4420")):
            write(f"{port}/addr_{key}", value)
        os.symlink(sub, f"{port}/subsystems/{NQN}")
        before = set(os.listdir("/dev"))
        call("nvme", "connect", "-t", self.trtype, "-a", address, "-s", "4420", "-n", NQN,
             f"--hostnqn=nqn.2014-08.org.nvmexpress:uuid:{HOST_ID}", f"--hostid={HOST_ID}")
        fresh = []

        def there():
            fresh[:] = [d for d in set(os.listdir("/dev")) - before
                        if d.startswith("nvme") and d.endswith("n1")]
            return bool(fresh)
        wait_for("NVMe namespace", there)
        return "/dev/" + fresh[0]

    def down(self):
        sub, port = f"{NVMET}/subsystems/{NQN}", f"{NVMET}/ports/1"
        subprocess.run(["nvme", "disconnect", "-n", NQN], capture_output=True, check=False)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{port}/subsystems/{NQN}")
            os.rmdir(port)
            write(f"{sub}/namespaces/1/enable", "0")
            os.rmdir(f"{sub}/namespaces/1")
            os.rmdir(sub)
        super().down()


class Iser(Brd):
    """The kernel's iSCSI target on a brd disk, by RDMA, both ends on this machine."""
    name = "iSER"
    IQN = "iqn.2026-01.org.example:farpage-peers"
    TARGET = "/sys/kernel/config/target"

    def admin(self, *argv):
        return call("iscsiadm", "-m", "node", "-T", self.IQN, "-p",
                    f"{self.setup.address}:3260,1", *argv)

    def up(self):
        if not self.setup.address:
            raise Unavailable("no RDMA device (--address)")
        need_program("iscsiadm", "iscsid")
        need_module("iscsi_target_mod", "target_core_iblock", "ib_isert", "ib_iser", "sd_mod")
        ram = super().up()
        core, tpg = f"{self.TARGET}/core/iblock_0/ram", f"{self.TARGET}/iscsi/{self.IQN}/tpgt_1"
        os.makedirs(core)
        write(f"{core}/control", f"udev_path={ram}")
        write(f"{core}/enable", "1")
        os.makedirs(f"{tpg}/lun/lun_0")
        os.symlink(core, f"{tpg}/lun/lun_0/ram")
        os.makedirs(f"{tpg}/np/{self.setup.address}:3260")
        write(f"{tpg}/np/{self.setup.address}:3260/iser", "1")
        for key, value in (("authentication", "0"), ("generate_node_acls", "1"),
                           ("demo_mode_write_protect", "0")):
            write(f"{tpg}/attrib/{key}", value)
        write(f"{tpg}/enable", "1")
        os.makedirs("/run/lock/iscsi", exist_ok=True)
        os.makedirs("/etc/iscsi", exist_ok=True)
        write("/etc/iscsi/initiatorname.iscsi", f"InitiatorName={self.IQN}.initiator\n")
        if not self.pids(["iscsid"]):
            call("iscsid")
        before = set(os.listdir("/dev"))
        self.admin("-o", "new", "-I", "iser")
        self.admin("--login", "-I", "iser")
        fresh = []

        def there():
            fresh[:] = [d for d in set(os.listdir("/dev")) - before if re.fullmatch("sd[a-z]+", d)]
            return bool(fresh)
        wait_for("disk of iSER", there)
        return "/dev/" + fresh[0]

    def down(self):
        core, base = f"{self.TARGET}/core/iblock_0", f"{self.TARGET}/iscsi/{self.IQN}"
        tpg = f"{base}/tpgt_1"
        if os.path.exists(base):
            with contextlib.suppress(RuntimeError):
                self.admin("--logout", "-I", "iser")
            with contextlib.suppress(RuntimeError):
                self.admin("-o", "delete")
            with contextlib.suppress(FileNotFoundError):
                write(f"{tpg}/enable", "0")
                os.rmdir(f"{tpg}/np/{self.setup.address}:3260")
                os.unlink(f"{tpg}/lun/lun_0/ram")
                os.rmdir(f"{tpg}/lun/lun_0")
                os.rmdir(tpg)
                os.rmdir(base)
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(f"{core}/ram")
            os.rmdir(core)
        super().down()


class Disk(Peer):
    """An existing disk, which is overwritten."""
    name = "disk"
    device = True

    def up(self):
        if not self.setup.disk:
            raise Unavailable("no disk was named (--disk)")
        return self.setup.disk


class NvmeRdma(Nvmeof):
    name = "NVMe-oF RDMA"
    trtype = "rdma"


class NvmeTcp(Nvmeof):
    name = "NVMe-oF TCP"
    trtype = "tcp"


ALL = (NbdkitMemoryUnix, NbdkitMemoryTcp, NbdServer, FarpageShm, FarpageShm2, FarpageTcp,
       FarpageTcp2, Brd, Zram, Disk, NvmeRdma, NvmeTcp, Iser, NbdClient, NbdServerClient,
       FarpageDeviceShm, FarpageDeviceTcp, FarpageDeviceTcp2, FarpageDeviceRdma,
       FarpageDeviceRdma2, FarpageUblkShm, FarpageUblkTcp, FarpageUblkRdma)
