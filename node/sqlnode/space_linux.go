package sqlnode

import "golang.org/x/sys/unix"

// kinds are the file systems that are not this machine's own, by their numbers.
var kinds = map[int64]string{
	unix.NFS_SUPER_MAGIC: "nfs", unix.SMB_SUPER_MAGIC: "smb", unix.CIFS_SUPER_MAGIC: "cifs", unix.SMB2_SUPER_MAGIC: "smb2",
	unix.AFS_SUPER_MAGIC: "afs", unix.AFS_FS_MAGIC: "afs", unix.CEPH_SUPER_MAGIC: "ceph", unix.OCFS2_SUPER_MAGIC: "ocfs2",
	unix.FUSE_SUPER_MAGIC: "fuse", unix.V9FS_MAGIC: "9p",
}

// filesystem returns on what kind of file system a file is, "" for a usual one, and how
// much room is left on it.
func filesystem(path string) (kind string, space uint64, known bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return "", 0, false
	}
	return kinds[int64(uint32(s.Type))], s.Bavail * uint64(s.Bsize), true
}
