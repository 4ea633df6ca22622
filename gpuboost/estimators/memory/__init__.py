"""What a fit takes on a device, before it is begun."""
