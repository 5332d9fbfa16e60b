"""A guest with real PCIe switches, real ACS registers, real setpci and systemd."""
